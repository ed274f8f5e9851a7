"""A store of a user's, which SEQUITUR_VIEW_STATE names as module:function, keeps the contract."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stores.view_state.contract import ViewStoreContract
from tests.stores.view_state import own_store


class TestOwnStore(ViewStoreContract):
    streams = 100_000

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "state"
        self.url = f"{own_store.__name__}:{own_store.open_it.__name__}?{self.folder}"

    def spoil(self) -> Callable[[], None]:
        paths = list(self.folder.glob("*/*.sqlite"))
        for path in paths:
            path.write_bytes(b"\xa5" * 9999)

        def recover() -> None:
            for path in paths:
                path.unlink()

        return recover
