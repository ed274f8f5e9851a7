"""The cursor in an SQLite file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from stores.db.engines import open_engine
from tests.contracts.cursor import CursorContract


class TestSqliteCursor(CursorContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = open_engine(f"sqlite:///{tmp_path}/consumer.sqlite")
        yield engine
        engine.dispose()
