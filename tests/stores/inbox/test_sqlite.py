"""The inbox in an SQLite file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from stores.db.engines import open_engine
from tests.contracts.inbox import InboxContract


class TestSqliteInbox(InboxContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = open_engine(f"sqlite:///{tmp_path}/consumer.sqlite")
        yield engine
        engine.dispose()
