"""What every view-state store has to do: a pytest class for your own backend to inherit.

    class TestMyStore(ViewStoreContract):
        @pytest.fixture(autouse=True)
        def _place(self, tmp_path):
            self.url = f"my_package.my_store:open_it?{tmp_path}"

`url` is anything that SEQUITUR_VIEW_STATE takes, and a new place for each test.
"""

from stores.view_state.contract_kit import GROUP
from stores.view_state.contract_processes import ProcessesContract
from stores.view_state.contract_tables import TablesContract

__all__ = ["GROUP", "ViewStoreContract"]


class ViewStoreContract(TablesContract, ProcessesContract):
    """Inherit, set `url` for each test, and say what the backend is like.

    A test that does not apply to such a backend is skipped, with the reason.

    Attributes:
        url: what `SEQUITUR_VIEW_STATE` takes, and a new place for each test.
        durable: whether tables outlive the process.
        keeps_all: whether a killed process loses nothing that it wrote, not even the last writes.
        shared: whether workers share a server.
        streams: how many idle streams the test of them has.
        memory: bytes that they may add to the process, None for a backend that is in memory.
    """
