"""The SQLite read store keeps the contract of sinks, in a file that others can read."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stores.sinks import Batch, DeclaredTable, StoreError
from stores.sinks.contract import (
    ORDERS,
    TOPIC,
    EachDeadContract,
    Rows,
    SinkContract,
    delete,
    order,
    upsert,
    value,
)
from stores.sinks.errors import DataRefused
from stores.sinks.sql.sqlite import SqliteSink
from stores.sinks.sql.transaction import SqlTransaction
from tests.stores.sinks.compared import ComparedContract
from tests.stores.sinks.sql.ruled import RULED, check_ruled
from tests.stores.sinks.sql.switched_dead import SwitchedDeadContract
from topology.model.table import Table

AFTER_INSERT = "CREATE TRIGGER t AFTER INSERT ON orders BEGIN"


def sides(connection: sqlite3.Connection) -> None:
    """Call shadow tables as layouts before the fourth did."""
    connection.execute("ALTER TABLE _shadows RENAME TO _sides")
    connection.execute("ALTER TABLE _sides RENAME COLUMN shadow TO side")


class TestSqliteSink(SinkContract, EachDeadContract, ComparedContract, SwitchedDeadContract):
    stepping = SqlTransaction
    steps = (
        "make_tables",
        "delete",
        "upsert",
        "save_streams",
        "save_positions",
        "save_dead",
        "save_batch",
    )
    path: Path

    @pytest.fixture(autouse=True)
    def _path(self, tmp_path: Path) -> None:
        self.path = tmp_path / "read.db"

    def open(self, tables: Iterable[DeclaredTable] = (), shadow: str | None = None) -> SqliteSink:
        return SqliteSink(self.path, tables, shadow)

    def forget(self) -> None:
        for file in self.path.parent.glob("read.db*"):
            file.unlink()

    def rows(self, table: str) -> Rows:
        info = self.select("SELECT name, pk, type FROM pragma_table_info(?)", table)
        key = {name: pk for name, pk, _ in info if pk}
        booleans = {name for name, _, kind in info if kind == "BOOLEAN"}
        found: Rows = {}
        for values in self.select(f"SELECT * FROM {_quoted(table)}") if info else ():
            row = dict(zip((name for name, _, _ in info), values, strict=True))
            row.update((name, bool(row[name])) for name in booleans if row[name] is not None)
            at = tuple(row.pop(name) for name in sorted(key, key=lambda name: key[name]))
            found[at] = {name: value for name, value in row.items() if value is not None}
        return found

    def dead(self) -> list[tuple[str, int, int, str, bytes | None]]:
        return self.select('SELECT topic, "partition", "offset", reason, value FROM _dead')

    def make(self, sql: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.executescript(sql)

    def select(self, sql: str, *parameters: Any) -> list[Any]:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(sql, parameters).fetchall()

    def test_column_types(self) -> None:
        with self.open([ORDERS]) as sink:
            row = upsert("inferred", {"id": "x"}, n=1, b=False, t="", j=[])
            sink.apply([(TOPIC, 0, 0, value("a", 1, row))])
        sql = "SELECT name, type FROM pragma_table_info(?)"
        assert dict(self.select(sql, "orders")) == {
            "id": "INTEGER",
            "state": "TEXT",
            "total": "REAL",
            "paid": "BOOLEAN",
        }
        inferred = {"id": "TEXT", "n": "NUMERIC", "b": "BOOLEAN", "t": "TEXT", "j": "TEXT"}
        assert dict(self.select(sql, "inferred")) == inferred

    def test_values_keep_their_type(self) -> None:
        with self.open([ORDERS]) as sink:
            sink.apply([order(0, 1, total=2, state="05", paid=True, n=7, big=2**63 - 1)])
        sql = "SELECT typeof(total), state, paid, n, typeof(n), big FROM orders"
        assert self.select(sql) == [("real", "05", 1, 7, "integer", 2**63 - 1)]

    def test_a_table_whose_name_no_rebuild_could_add_to_goes_on(self) -> None:
        long = "n" * 63
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute(f"CREATE TABLE {long} (id INTEGER PRIMARY KEY, n NUMERIC)")
        declared = Table(long, {"id": int}, {"later": str})
        with self.open([declared]) as sink:
            row = upsert(long, {"id": 1}, n=1, later="x")
            assert sink.apply([(TOPIC, 0, 0, value("a", 1, row))]).dead == 0
        assert self.rows(long) == {(1,): {"n": 1, "later": "x"}}

    def test_progress_can_be_queried(self) -> None:
        with self.open([ORDERS]) as sink:
            sink.apply([order(0, 4), order(1, 9)], Batch("q", 0))
        assert self.select("SELECT * FROM _progress") == [(TOPIC, "orders", "a", 9, 0)]
        assert self.select("SELECT * FROM _positions") == [(TOPIC, 0, 2, 2, 0, 0)]
        assert self.select("SELECT query, number, records FROM _batches") == [("q", 0, 2)]

    def test_a_reader_does_not_hold_up_the_writer(self) -> None:
        with self.open([ORDERS]) as sink, closing(sqlite3.connect(self.path)) as reader:
            sink.apply([order(0, 1, state="new")])
            reader.execute("BEGIN")
            assert reader.execute("SELECT state FROM orders").fetchall() == [("new",)]
            sink.apply([order(1, 2, state="paid")])
            assert reader.execute("SELECT state FROM orders").fetchall() == [("new",)]

    def test_two_sinks_take_turns(self) -> None:
        with self.open([ORDERS]) as one, self.open([ORDERS]) as other:
            one.apply([order(0, 1, state="new", extra=1)])
            assert other.apply([order(0, 1, state="new", extra=1)]).replayed == 1
            assert other.apply([order(1, 2, extra=2)]).applied == 1
            assert one.apply([order(1, 2, extra=2), order(2, 3, more=3)]).applied == 1
        assert self.rows("orders") == {(1,): {"state": "new", "extra": 2, "more": 3}}

    def test_tables_made_by_hand_are_taken_as_they_are(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute(
                "CREATE TABLE t (day DATE, id VARCHAR(9), at DATETIME, n BIGINT, x DECIMAL, "
                "PRIMARY KEY (id, day)) WITHOUT ROWID"
            )
            connection.execute("CREATE TABLE keyless (id INTEGER)")
            connection.execute("CREATE VIEW seen AS SELECT id FROM t")
        row = {"id": 5, "day": "2013-01-01"}
        with self.open() as sink:
            done = sink.apply(
                [
                    (
                        TOPIC,
                        0,
                        0,
                        value("a", 1, upsert("t", row, at="2013-01-01T05:15Z", n=5, x=1)),
                    ),
                    (TOPIC, 0, 1, value("a", 2, upsert("keyless", {"id": 5}))),
                    (TOPIC, 0, 2, value("a", 3, upsert("seen", {"id": 5}))),
                ]
            )
        assert (done.applied, done.dead) == (1, 2)
        assert self.rows("t") == {("5", "2013-01-01"): {"at": "2013-01-01T05:15Z", "n": 5, "x": 1}}

    def test_a_rule_holds_for_the_row_whatever_an_upsert_names(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.executescript(RULED.format("TEXT"))
        with self.open() as sink:
            check_ruled(sink, 3)

    @pytest.mark.parametrize("name", ["pragma_table_info", "PRAGMA_table_info"])
    def test_a_table_may_be_called_as_a_function_of_the_database_is(self, name: str) -> None:
        for at in range(2):
            row = upsert(name, {"b": at, "a": at}, n=at)
            assert self.apply((TOPIC, 0, at, value("a", at, row))).applied == 1
        assert self.select(f"SELECT b, a, n FROM {name}") == [(0, 0, 0), (1, 1, 1)]

    def test_a_file_that_is_no_read_store_is_refused(self) -> None:
        self.path.write_bytes(b"something else, and long enough to be looked at" * 50)
        with pytest.raises(StoreError, match=r"read\.db.*not a database"):
            self.open()

    def test_a_layout_of_another_version_is_refused(self) -> None:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("PRAGMA user_version = 99")
        with pytest.raises(StoreError, match="layout 99"):
            self.open()

    def test_a_file_of_the_first_layout_goes_on(self) -> None:
        self.apply(order(0, 1, state="new"))
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("ALTER TABLE _progress DROP COLUMN epoch")
            connection.execute("DROP TABLE _shadows")
            connection.execute("ALTER TABLE _dead DROP COLUMN at")
            connection.execute("DROP TABLE _dead_removed")
            connection.execute("PRAGMA user_version = 1")
        assert self.apply(order(0, 1), order(1, 1), order(2, 2, total=1.0)).applied == 1
        assert self.select("SELECT * FROM _progress") == [(TOPIC, "orders", "a", 2, 0)]
        assert self.rows("orders") == {(1,): {"state": "new", "total": 1.0}}

    def test_a_file_that_kept_all_dead_records_goes_on(self) -> None:
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([(TOPIC, 0, 0, b"shadow")])
        self.apply((TOPIC, 0, 0, b"old"), order(1, 1, state="new"))
        with closing(sqlite3.connect(self.path)) as connection:
            for end in ("", "__next"):
                connection.execute(f"ALTER TABLE _dead{end} DROP COLUMN at")
                connection.execute(f"DROP TABLE _dead_removed{end}")
            sides(connection)
            connection.execute("PRAGMA user_version = 2")
        self.apply((TOPIC, 0, 2, b"new"))
        for name, values in ((None, [b"new", b"old"]), ("next", [b"shadow"])):
            with self.open([ORDERS], name) as sink:
                found = sink.last_dead(9)
                assert sorted(str(each.value) for each in found) == sorted(map(str, values))
                assert all(each.at for each in found)
                assert sink.remove_dead() == len(values)
                assert sink.dead_counts()[0].removed == len(values)

    def test_a_file_whose_shadow_tables_were_called_sides_goes_on(self) -> None:
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([order(0, 1, state="shadow")])
        with closing(sqlite3.connect(self.path)) as connection:
            sides(connection)
            connection.execute("PRAGMA user_version = 3")
        with self.open([ORDERS]) as live:
            assert live.shadows() == ["next"]
            live.switch("next", [TOPIC])
        assert self.rows("orders") == {(1,): {"state": "shadow"}}

    def test_what_others_made_of_the_tables_goes_on_reading_the_live_ones(self) -> None:
        self.apply(order(0, 1, state="live"))
        with closing(sqlite3.connect(self.path)) as connection:
            connection.execute("CREATE VIEW seen AS SELECT state FROM orders")
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([order(0, 1, state="shadow")])
        with self.open([ORDERS]) as live:
            live.switch("next", [TOPIC])
            assert self.select("SELECT state FROM seen") == [("shadow",)]
            assert self.select("SELECT state FROM orders__old") == [("live",)]

    def test_a_folder_that_cannot_be_made_is_an_error(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(StoreError, match="file"):
            SqliteSink(tmp_path / "file" / "sub" / "read.db")

    def test_what_the_database_refuses_is_dead_and_the_rest_goes_on(self) -> None:
        with self.open([ORDERS]) as sink:
            with closing(sqlite3.connect(self.path)) as connection:
                connection.execute(
                    "CREATE TRIGGER t BEFORE INSERT ON orders WHEN NEW.state = 'bad' "
                    "BEGIN SELECT RAISE(ABORT, 'mine'); END"
                )
            states = ["bad" if n in (3, 7) else f"s{n}" for n in range(10)]
            changes = [upsert("orders", {"id": n}, state=s) for n, s in enumerate(states)]
            records = [(TOPIC, 0, n, value("a", n, changes[n])) for n in range(10)]
            done = sink.apply(records, Batch("q", 0))
            assert (done.records, done.applied, done.dead) == (10, 8, 2)
            assert sink.last_batch("q") == 0
        assert [(row[2], "mine" in row[3]) for row in self.dead()] == [(3, True), (7, True)]
        good = {(n,): {"state": s} for n, s in enumerate(states) if s != "bad"}
        assert self.rows("orders") == good

    @pytest.mark.parametrize(
        ("rule", "good", "bad"),
        [
            ("CREATE INDEX i ON orders (json_extract(state, '$.a'))", "{}", "no JSON"),
            ("CREATE INDEX i ON orders (date(state))", "2026-01-01", "now"),
            (f"{AFTER_INSERT} SELECT json_extract('{{}}', NEW.state); END", "$.a", "a"),
            (f"{AFTER_INSERT} SELECT abs(CAST(NEW.state AS INTEGER)); END", "1", str(-(2**63))),
        ],
    )
    def test_a_value_that_an_expression_cannot_take_is_dead_and_the_rest_goes_on(
        self, rule: str, good: str, bad: str
    ) -> None:
        states = [good, bad, good]
        rows = [upsert("orders", {"id": n}, state=state) for n, state in enumerate(states)]
        with self.open([ORDERS]) as sink:
            self.make(rule)
            done = sink.apply([(TOPIC, 0, n, value("a", n, row)) for n, row in enumerate(rows)])
            assert (done.applied, done.dead) == (2, 1)
        assert [row[2] for row in self.dead()] == [1]
        assert self.rows("orders") == {(0,): {"state": good}, (2,): {"state": good}}

    def test_a_row_that_a_trigger_cannot_delete_is_dead(self) -> None:
        with self.open([ORDERS]) as sink:
            self.make(
                "CREATE TRIGGER t BEFORE DELETE ON orders "
                "BEGIN SELECT json_extract(OLD.state, '$.a'); END"
            )
            rows = [upsert("orders", {"id": n}, state="[" + "]" * n) for n in range(2)]
            sink.apply([(TOPIC, 0, 0, value("a", 1, *rows))])
            gone = [value("a", 2 + n, delete("orders", {"id": n})) for n in range(2)]
            done = sink.apply([(TOPIC, 0, 1 + n, each) for n, each in enumerate(gone)])
            assert (done.applied, done.dead) == (1, 1)
        assert self.rows("orders") == {(0,): {"state": "["}}

    def test_a_trigger_that_never_works_is_a_store_error(self) -> None:
        """Also where a value was refused before it was made."""
        with self.open([ORDERS]) as sink:
            self.make(f"{AFTER_INSERT} SELECT json(NEW.state); END")
            assert sink.apply([order(0, 1, state="no JSON")]).dead == 1
            self.make(f"DROP TRIGGER t; {AFTER_INSERT} INSERT INTO missing VALUES (1); END")
            with pytest.raises(StoreError, match=r"no such table: main\.missing") as error:
                sink.apply([order(1, 2, state="no JSON")])
            assert not isinstance(error.value, DataRefused)
            self.make("DROP TRIGGER t")
            assert sink.apply([order(1, 2, state="{}")]).applied == 1

    def test_a_change_without_a_key_for_a_table_without_one_is_dead(self) -> None:
        self.make("CREATE TABLE log (x TEXT)")
        with self.open() as sink:
            for at, change in enumerate([upsert("log", {}, x="a"), delete("log", {})]):
                assert sink.apply([(TOPIC, 0, at, value("a", at, change))]).dead == 1

    def test_a_switch_leaves_what_somebody_made_of_a_table_with_the_old_one(self) -> None:
        """As docs/materializing.md says."""
        self.make(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT CHECK (state <> 'bad'));"
            "CREATE INDEX by_state ON orders (state);"
            "CREATE TRIGGER t AFTER INSERT ON orders BEGIN SELECT 1; END"
        )
        orders = Table("orders", {"id": int}, {"state": str})
        with self.open([orders], "next") as shadow:
            shadow.apply([order(0, 1, state="bad")])
        with self.open([orders]) as live:
            live.switch("next", [TOPIC])
            assert live.apply([order(1, 2, state="bad")]).applied == 1
            sql = "SELECT name, tbl_name FROM sqlite_master WHERE type IN ('index', 'trigger')"
            made = [row for row in self.select(sql) if row[0] in ("by_state", "t")]
            assert made == [("by_state", "orders__old"), ("t", "orders__old")]
            live.drop("old")
            assert not any(row[0] in ("by_state", "t") for row in self.select(sql))

    def test_a_table_or_column_that_there_cannot_be_is_dead_and_the_rest_goes_on(self) -> None:
        with self.open([ORDERS]) as sink:
            with closing(sqlite3.connect(self.path)) as connection:
                connection.execute(
                    "CREATE TABLE sums (id INTEGER PRIMARY KEY, n BIGINT, twice BIGINT AS (n * 2))"
                )
            columns = ["n", "twice", "more"]
            changes = [upsert("sums", {"id": n}, **{c: n}) for n, c in enumerate(columns)]
            records = [(TOPIC, 0, n, value("a", n, each)) for n, each in enumerate(changes)]
            done = sink.apply(records, Batch("q", 0))
            assert (done.applied, done.dead) == (2, 1)
            assert sink.apply([order(3, 3)], Batch("q", 1)).applied == 1
        ((*at, reason, _),) = self.dead()
        assert (at, "twice" in reason) == ([TOPIC, 0, 1], True)
        assert self.select("SELECT id, n, more FROM sums") == [(0, 0, None), (2, None, 2)]

    def test_what_ends_the_database_s_work_is_a_store_error(self) -> None:
        with self.open([ORDERS]) as sink:
            with closing(sqlite3.connect(self.path)) as connection:
                connection.execute("DROP TABLE _batches")
            with pytest.raises(StoreError, match=r"read\.db: no such table"):
                sink.apply([order(0, 1)], Batch("q", 0))
            assert sink.progress() == []

    def test_the_folder_is_made(self, tmp_path: Path) -> None:
        with SqliteSink(tmp_path / "new" / "folder" / "read.db", [Table("t", {"k": str}, {})]):
            pass
        assert (tmp_path / "new" / "folder" / "read.db").exists()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
