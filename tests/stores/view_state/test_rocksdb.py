"""The RocksDB store keeps the contract; its write-ahead log is off, so a kill loses last writes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stores.view_state.contract import ViewStoreContract


class TestRocksDB(ViewStoreContract):
    keeps_all = False

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "state"
        self.url = f"rocksdb://{self.folder}"

    def spoil(self) -> Callable[[], None]:
        for path in (self.folder / "shop" / "board" / "0").iterdir():
            os.truncate(path, path.stat().st_size // 2)
        return lambda: None
