"""A file in SQLite that is new to several processes at once is opened by all of them."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Timer

import pytest
from sqlalchemy import create_engine

from stores.db.engines import open_engine
from stores.db.sqlite_engine import begin_immediate
from stores.db.sqlite_wal import set_wal
from stores.sinks import open_sink
from stores.view_state.sqlite import open_sqlite


@pytest.fixture
def written(tmp_path: Path) -> Iterator[tuple[Path, sqlite3.Connection]]:
    """A file that somebody else has begun to write."""
    file = tmp_path / "new.db"
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        yield file, writer


@pytest.mark.parametrize(
    "opened",
    [
        lambda url: open_sink(url).close(),
        lambda url: open_engine(url).connect().close(),
        lambda url: begin_immediate(create_engine(url)).connect().close(),
        lambda url: open_sqlite(url, "shop").reader.close(),
    ],
)
def test_who_writes_it_is_waited_for(
    opened: Callable[[str], None], written: tuple[Path, sqlite3.Connection]
) -> None:
    file, writer = written
    ended = Timer(0.3, lambda: writer.execute("COMMIT"))
    ended.start()
    opened(f"sqlite:///{file}")
    ended.join()
    assert writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_who_writes_it_for_ever_is_not(written: tuple[Path, sqlite3.Connection]) -> None:
    with (
        closing(sqlite3.connect(written[0])) as connection,
        pytest.raises(sqlite3.OperationalError, match="locked"),
    ):
        set_wal(connection, 0)
