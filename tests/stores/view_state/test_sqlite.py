"""The SQLite store keeps the contract."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stores.view_state.by_url import open_store
from stores.view_state.contract import GROUP, ViewStoreContract
from stores.view_state.table import TableError, TableUnavailable


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


def test_a_pool_without_a_free_connection_costs_no_table(tmp_path: Path) -> None:
    store: Any = open_store(f"sqlite:///{tmp_path}/state.sqlite", GROUP)
    table = store.table("board", 0)
    table.claim()
    table.write([(b"pa", b"1")], 5)
    store.engine.pool._timeout = 0.1
    held = [store.engine.connect() for _ in range(15)]
    for use in (lambda: table.write([(b"pa", b"2")], 6), table.claim):
        with pytest.raises(TableUnavailable, match="timed out"):
            use()
    for connection in held:
        connection.close()
    table.claim()
    assert (table.offset, dict(table.scan(b"a", b"z"))) == (5, {b"pa": b"1"})
    store.close()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///"])
def test_a_url_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(TableError, match="names no file"):
        open_store(url, "shop")
