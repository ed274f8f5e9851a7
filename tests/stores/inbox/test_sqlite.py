"""The inbox in an SQLite file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, text

from stores.db.engines import open_engine
from stores.inbox import Inbox, InboxError
from tests.contracts.inbox import InboxContract


class TestSqliteInbox(InboxContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = open_engine(f"sqlite:///{tmp_path}/consumer.sqlite")
        yield engine
        engine.dispose()

    def test_tables_of_an_earlier_version_are_refused_and_stay(self, engine: Engine) -> None:
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE sequitur_cursor_streams (cursor TEXT)"))
        with pytest.raises(InboxError, match="rename each to sequitur_inbox_"):
            Inbox(engine)
        assert inspect(engine).get_table_names() == ["sequitur_cursor_streams"]
