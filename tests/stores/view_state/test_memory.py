"""The store in memory keeps the contract, as far as it is for a process's own time."""

from collections.abc import Callable

from stores.view_state.contract import ViewStoreContract


class TestMemory(ViewStoreContract):
    url = "memory"
    durable = False
    memory = None

    def spoil(self) -> Callable[[], None]:
        return lambda: None
