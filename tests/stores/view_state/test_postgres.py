"""The PostgreSQL store keeps the contract, on a real server that may also crash."""

from collections.abc import Callable

import psycopg
import pytest
from sqlalchemy import text

from checkout.postgres import Postgres
from stores.view_state.by_url import open_store
from stores.view_state.contract import GROUP, ViewStoreContract
from stores.view_state.postgres import open_postgres
from stores.view_state.table import TableError, TableFenced, TableUnavailable


class TestPostgres(ViewStoreContract):
    shared = True
    streams = 300_000

    @pytest.fixture(autouse=True)
    def _place(self, postgres: Postgres, database: str) -> None:
        self.server = postgres
        self.url = database

    def spoil(self) -> Callable[[], None]:
        self.server.stop()
        return _starting(self.server)


def _starting(server: Postgres) -> Callable[[], None]:
    def start() -> None:
        server.start()

    return start


def test_a_server_that_was_gone_is_used_again(postgres: Postgres, database: str) -> None:
    store = open_store(database, GROUP)
    table = store.table("board", 0)
    table.claim()
    table.write([(b"pa", b"1")], 5)
    postgres.stop()
    for _ in range(2):
        with pytest.raises(TableUnavailable, match="see that the server runs"):
            table.get(b"pa")
        with pytest.raises(TableUnavailable, match="see that the server runs"):
            table.write([(b"pa", b"2")], 6)
    postgres.start()
    assert table.get(b"pa") == b"1"
    table.write([(b"pa", b"2")], 6)
    assert (table.offset, table.get(b"pa")) == (6, b"2")
    store.close()


def test_what_a_crashed_server_has_lost_is_not_built_on(postgres: Postgres, database: str) -> None:
    store = open_store(database, GROUP)
    table = store.table("board", 0)
    table.claim()
    table.write([(b"pa", b"1")], 5)
    line = "SELECT stamp, next_offset FROM sequitur_view_tables"
    with psycopg.connect(database, autocommit=True) as other:
        before = other.execute(line).fetchone()
        assert before is not None
        table.write([(b"pa", b"2"), (b"pb", b"2")], 6)
        # As a server comes back that had not written its log to the disk.
        other.execute("UPDATE sequitur_view_tables SET stamp = %s, next_offset = %s", before)
        other.execute("DELETE FROM sequitur_view_rows WHERE key = 'pb'")
        other.execute("UPDATE sequitur_view_rows SET value = '1'")
    for use in (
        lambda: table.get(b"pa"),
        lambda: list(table.scan(b"a", b"z")),
        lambda: table.write([(b"pc", b"3")], 7),
        table.clear,
    ):
        with pytest.raises(TableUnavailable, match="lost its last writes"):
            use()
    table.claim()
    assert (table.offset, dict(table.scan(b"a", b"z"))) == (5, {b"pa": b"1"})
    store.close()


def test_a_worker_that_was_stopped_within_a_write_does_not_hold_up_the_next_owner(
    database: str,
) -> None:
    stores = [open_store(database + "&options=-c%20lock_timeout%3D500ms", GROUP) for _ in range(2)]
    old, new = (store.table("board", 0) for store in stores)
    old.claim()
    with psycopg.connect(database) as stuck:
        stuck.execute("SELECT * FROM sequitur_view_tables FOR UPDATE")
        with pytest.raises(TableUnavailable, match="lock timeout"):
            new.claim()
    new.claim()
    with pytest.raises(TableFenced):
        old.write([(b"pa", b"1")], 5)
    for store in stores:
        store.close()


def test_a_table_that_takes_long_to_empty_is_emptied(database: str) -> None:
    store = open_store(database + "&options=-c%20statement_timeout%3D1s", GROUP)
    table = store.table("board", 0)
    table.claim()
    table.write([(b"pa", b"1")], 5)
    with psycopg.connect(database, autocommit=True) as other:
        other.execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql "
            "AS 'BEGIN PERFORM pg_sleep(2); RETURN OLD; END'"
        )
        other.execute(
            "CREATE TRIGGER slow BEFORE DELETE ON sequitur_view_rows "
            "FOR EACH ROW EXECUTE FUNCTION slow()"
        )
        with pytest.raises(TableUnavailable, match="statement timeout"):
            table.write([(b"pa", None)], 6)
        table.clear()
        other.execute("DROP TRIGGER slow ON sequitur_view_rows")
        other.execute("DROP FUNCTION slow")
    assert (table.offset, list(table.scan(b"a", b"z"))) == (None, [])
    store.close()


def test_tables_that_somebody_dropped_are_an_error_and_then_made_again(database: str) -> None:
    store = open_store(database, GROUP)
    table = store.table("board", 0)
    table.claim()
    table.write([(b"pa", b"1")], 5)
    with psycopg.connect(database, autocommit=True) as other:
        other.execute("DROP TABLE sequitur_view_tables, sequitur_view_rows")
    with pytest.raises(TableError, match="does not exist"):
        table.get(b"pa")
    again = store.table("board", 0)
    again.claim()
    assert (again.offset, again.get(b"pa")) == (None, None)
    store.close()


def test_who_may_make_no_tables_uses_those_that_are_there(
    postgres: Postgres, database: str
) -> None:
    with_schema = f"{database}&options=-csearch_path%3Dviews"
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA views")
        first = open_store(with_schema, GROUP)
        first.table("board", 0).claim()
        first.close()
        admin.execute("CREATE ROLE guest LOGIN")
        try:
            admin.execute("GRANT USAGE ON SCHEMA views TO guest")
            admin.execute("GRANT ALL ON ALL TABLES IN SCHEMA views TO guest")
            admin.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA views TO guest")
            store = open_postgres(with_schema.replace("postgres@", "guest@"), GROUP)
            table = store.table("board", 0)
            table.claim()
            table.write([(b"pa", b"1")], 5)
            with store.engine.connect() as connection:
                assert connection.execute(text("SHOW lock_timeout")).scalar() == "20s"
            store.close()
        finally:
            admin.execute("DROP OWNED BY guest")
            admin.execute("DROP ROLE guest")


def test_a_server_that_only_reads_is_waited_for(database: str) -> None:
    store = open_postgres(database, GROUP)
    table = store.table("board", 0)
    table.claim()
    with psycopg.connect(database, autocommit=True) as admin:
        name = admin.info.dbname
        admin.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        store.drop()
        store.engine.dispose()
        with pytest.raises(TableUnavailable):
            table.write([(b"pa", b"1")], 5)
        admin.execute("SET default_transaction_read_only = off")
        admin.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
    store.close()


def test_a_password_is_never_shown(database: str) -> None:
    store = open_store(database.replace("postgres@", "postgres:secret@"), GROUP)
    assert "secret" not in store.table("board", 0).name
    store.close()
    with pytest.raises(TableError) as error:
        open_store("postgresql://me:secret@127.0.0.1:1/none", GROUP).table("board", 0)
    assert "secret" not in str(error.value)
    assert "see that the server runs" in str(error.value)
