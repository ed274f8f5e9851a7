"""The SQLite store keeps the contract."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stores.view_state.by_url import open_store
from stores.view_state.contract import ViewStoreContract
from stores.view_state.table import TableError


class TestSqlite(ViewStoreContract):
    shared = True  # by workers on one machine
    streams = 400_000

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "state"
        self.url = f"sqlite:///{self.folder}/state.sqlite"

    def spoil(self) -> Callable[[], None]:
        (self.folder / "state.sqlite").write_bytes(b"\xa5" * 9999)

        def recover() -> None:
            for path in self.folder.iterdir():
                path.unlink()

        return recover


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///"])
def test_a_url_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(TableError, match="names no file"):
        open_store(url, "shop")
