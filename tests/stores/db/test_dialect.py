"""A transaction that is begun is one that ends."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from stores.db.dialect import begin_writing
from stores.db.sqlite_engine import begin_immediate
from stores.outbox import MessageLog


class AutoCommitting(sqlite3.Connection):
    """As `sqlite3.connect(…, autocommit=True)` has it, from Python 3.12 on."""

    autocommit = True  # type: ignore[assignment,misc,unused-ignore]
    isolation_level = "DEFERRED"

    def commit(self) -> None:
        """Does nothing."""


GIVEN = {"factory": AutoCommitting, "isolation_level": None}


def test_a_connection_whose_commit_does_nothing_is_refused(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/shop.sqlite", connect_args=GIVEN)
    with engine.begin() as connection:
        with pytest.raises(ValueError, match="autocommit=True, by which nothing that is begun is"):
            begin_writing(connection)
        connection.exec_driver_sql("BEGIN")  # whose end is the matter of who says so
        begin_writing(connection)
        connection.exec_driver_sql("COMMIT")
    engine.dispose()


def test_an_engine_of_such_connections_is_refused(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/shop.sqlite", connect_args=GIVEN)
    with pytest.raises(ValueError, match="autocommit=True"):
        begin_immediate(engine).connect()


def test_a_message_log_is_made_on_it_and_the_file_is_not_locked(tmp_path: Path) -> None:
    file = f"{tmp_path}/shop.sqlite"
    engine = create_engine(f"sqlite:///{file}", connect_args=GIVEN)
    MessageLog().create(engine)
    with create_engine(f"sqlite:///{file}", connect_args={"timeout": 0}).begin() as other:
        other.execute(text("UPDATE sequitur_layout SET version = 1"))
    engine.dispose()
