"""The PostgreSQL read store keeps the contract of sinks, in tables that others can query."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from stores.sinks import Batch, DeclaredTable, OutputRecord, Position, StoreError, open_sink
from stores.sinks.contract import (
    ORDERS,
    TOPIC,
    Rows,
    SinkContract,
    order,
    upsert,
    value,
)
from stores.sinks.errors import DataRefused
from stores.sinks.sql.postgres import PostgresSink
from stores.sinks.sql.transaction import SqlTransaction
from tests.stores.sinks.compared import ComparedContract
from tests.stores.sinks.sql.ruled import RULED, check_ruled
from tests.stores.sinks.sql.switched_dead import SwitchedDeadContract
from topology.model.table import Table

pytestmark = pytest.mark.integration


class TestPostgresSink(SinkContract, ComparedContract, SwitchedDeadContract):
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
    examples = 20  # of three times as many in SQLite, by the same code
    url: str

    @pytest.fixture(autouse=True)
    def _url(self, database: str) -> None:
        self.url = database

    def open(self, tables: Iterable[DeclaredTable] = (), shadow: str | None = None) -> PostgresSink:
        return PostgresSink(self.url, tables, shadow)

    def forget(self) -> None:
        self.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def rows(self, table: str) -> Rows:
        info = self.select(
            "SELECT a.attname, array_position(i.indkey::int2[], a.attnum) FROM pg_attribute AS a "
            "JOIN pg_class AS c ON c.oid = a.attrelid "
            "LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary "
            "WHERE c.relname = %s AND a.attnum > 0 ORDER BY a.attnum",
            table,
        )
        key = {name: at for name, at in info if at is not None}
        found: Rows = {}
        with psycopg.connect(self.url) as connection:
            sql = SQL("SELECT * FROM {}").format(Identifier(table))
            for values in connection.execute(sql) if info else ():
                row = dict(zip((name for name, _ in info), values, strict=True))
                at = tuple(row.pop(name) for name in sorted(key, key=lambda name: key[name]))
                found[at] = {name: value for name, value in row.items() if value is not None}
        return found

    def dead(self) -> list[tuple[str, int, int, str, bytes | None]]:
        return self.select(
            'SELECT topic, "partition", "offset", reason, value FROM _dead ORDER BY 1, 2, 3'
        )

    def select(self, sql: str, *parameters: Any) -> list[Any]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql, parameters).fetchall()

    def run(self, sql: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(sql)

    def test_column_types(self) -> None:
        with self.open([ORDERS]) as sink:
            row = upsert("inferred", {"id": "x"}, n=1, b=False, t="", j=[])
            sink.apply([(TOPIC, 0, 0, value("a", 1, row))])
        sql = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s"
        assert dict(self.select(sql, "orders")) == {
            "id": "bigint",
            "state": "text",
            "total": "double precision",
            "paid": "boolean",
        }
        inferred = {"id": "text", "n": "numeric", "b": "boolean", "t": "text", "j": "text"}
        assert dict(self.select(sql, "inferred")) == inferred

    @pytest.mark.parametrize("many", [False, True])
    def test_values_keep_their_value(self, many: bool) -> None:
        numbers = [0.1 + 0.2, 1e300, -5e-324, 2.0, 2**63 - 1, -(2**63)]
        texts = ["05", "", "\\N", "a\tb\nc\\", "\r\n", "'\"", "null", "😀 ä"]
        changes = [
            upsert("t", {"id": n}, number=number, real=float(number), text=text, flag=n % 2 == 0)
            for n, (number, text) in enumerate(
                (number, text) for number in numbers for text in texts
            )
        ]
        changes += _padding(100) if many else []
        with self.open([Table("t", {"id": int}, {"real": float})]) as sink:
            sink.apply([(TOPIC, 0, 0, value("a", 1, *changes))])
            wanted = [{**change["key"], **change["values"]} for change in changes]
            found = list(sink.rows("t"))
        assert found == wanted
        assert self.select("SELECT number FROM t WHERE id = 0") == [(Decimal(repr(numbers[0])),)]

    def test_progress_can_be_queried(self) -> None:
        with self.open([ORDERS]) as sink:
            sink.apply([order(0, 4), order(1, 9)], Batch("q", 0))
        assert self.select("SELECT * FROM _progress") == [(TOPIC, "orders", "a", 9, 0)]
        assert self.select("SELECT * FROM _positions") == [(TOPIC, 0, 2, 2, 0, 0)]
        assert self.select("SELECT query, number, records FROM _batches") == [("q", 0, 2)]

    def test_text_with_nul_is_dead_and_in_a_stream_s_name_it_is_not(self) -> None:
        with self.open([ORDERS]) as sink:
            bad = upsert("orders", {"id": 1}, state="a\0b")
            nested = upsert("t", {"k": "x"}, inner={"a": "\0"})
            names = ["\0", "\ue000", "\ue0000", "\ue000e", "e", "0"]
            records: list[OutputRecord] = [
                (TOPIC, 0, 0, value("a", 1, bad)),
                (TOPIC, 0, 1, value("a", 2, upsert("t", {"k": "a\0"}))),
                (TOPIC, 0, 2, value("a", 3, nested)),
                *((TOPIC, 0, 3 + n, value(name, 1)) for n, name in enumerate(names)),
            ]
            done = sink.apply(records)
            assert (done.applied, done.dead) == (7, 2)
            again = [(TOPIC, 0, 20 + n, value(name, 1)) for n, name in enumerate(names)]
            assert sink.apply(again).duplicates == len(names)
        assert "NUL" in self.dead()[0][3]
        assert self.rows("t") == {("x",): {"inner": '{"a":"\\u0000"}'}}

    def test_tables_made_by_hand_are_taken_as_they_are_and_their_rules_too(self) -> None:
        self.run(
            "CREATE TABLE t (day DATE, id VARCHAR(9), at TIMESTAMPTZ, n SMALLINT CHECK (n < 9), "
            "PRIMARY KEY (id, day)); CREATE TABLE keyless (id INTEGER); "
            "CREATE VIEW seen AS SELECT id FROM t"
        )
        row = {"id": 5, "day": "2013-01-01"}
        changes = [
            upsert("t", row, at="2013-01-01T05:15Z", n=5),
            upsert("t", row, n=100_000),
            upsert("t", row, n=9),
            upsert("t", row, at="no time"),
            upsert("t", {"id": "longer than 9", "day": "2013-01-01"}),
            upsert("t", {"id": "x", "day": "no day"}),
            upsert("keyless", {"id": 5}),
            upsert("seen", {"id": 5}),
            upsert("t", {"id": "long " * 9_000, "day": "2013-01-01"}),
            upsert("t", row, n=6),
        ]
        with self.open([]) as sink:
            records = [(TOPIC, 0, at, value("a", at, each)) for at, each in enumerate(changes)]
            done = sink.apply(records, Batch("q", 0))
            assert (done.applied, done.dead) == (2, 8)
            assert sink.progress() == [Position(TOPIC, 0, 10, applied=2, dead=8)]
            assert sink.last_batch("q") == 0
            assert sink.apply(records).replayed == 10
        assert [row[2] for row in self.dead()] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert self.select("SELECT id, day::text, n FROM t") == [("5", "2013-01-01", 6)]

    @pytest.mark.parametrize("more", [0, 60])
    def test_a_type_of_somebody_s_own_takes_what_its_text_says(self, more: int) -> None:
        self.run("CREATE TABLE own (id BIGINT PRIMARY KEY, j JSONB, u UUID, n MONEY)")
        found = [7, True, 0.5, {"a": 1}, "[2]", 1, None, "no JSON"]
        changes = [upsert("own", {"id": n}, j=each) for n, each in enumerate(found)]
        changes[5] = upsert("own", {"id": 5}, u=1)
        changes += [upsert("own", {"id": 100 + n}, j=n, n=n) for n in range(more)]
        with self.open() as sink:
            records = [(TOPIC, 0, n, value(f"s{n}", 1, c)) for n, c in enumerate(changes)]
            assert sink.apply(records).dead == 2
        rows = self.select("SELECT id, j FROM own WHERE id < 100 ORDER BY id")
        assert rows == [(0, 7), (1, True), (2, 0.5), (3, {"a": 1}), (4, [2]), (6, None)]
        assert [row[2] for row in self.dead()] == [5, 7]

    def test_a_type_that_a_trigger_does_not_get_is_refused(self) -> None:
        self.run(
            "CREATE TABLE t (id BIGINT PRIMARY KEY, n BIGINT); CREATE TABLE log (j JSONB);"
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN INSERT INTO log VALUES (NEW.n); RETURN NEW; END $$;"
            "CREATE TRIGGER note BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()"
        )
        assert self.apply((TOPIC, 0, 0, value("a", 1, upsert("t", {"id": 1}, n=1)))).dead == 1

    @pytest.mark.parametrize("rows", [1, 60])
    def test_a_rule_holds_for_the_row_whatever_an_upsert_names(self, rows: int) -> None:
        self.run(RULED.format("CHAR(9)"))
        with self.open() as sink:
            check_ruled(sink, rows)

    def test_a_store_that_kept_all_dead_records_goes_on(self) -> None:
        self.apply((TOPIC, 0, 0, b"old"))
        self.run("ALTER TABLE _dead DROP COLUMN at")
        self.run("DROP TABLE _dead_removed")
        self.run("ALTER TABLE _shadows RENAME TO _sides")
        self.run("ALTER TABLE _sides RENAME COLUMN shadow TO side")
        self.run("UPDATE _layout SET number = 2")
        self.apply((TOPIC, 0, 1, b"new"))
        with self.open([ORDERS]) as sink:
            assert [each.at is not None for each in sink.last_dead(9)] == [True, True]
            assert sink.remove_dead() == 2

    def test_many_rows_are_written_as_few_are(self) -> None:
        def record(offset: int, n: int, **values: Any) -> OutputRecord:
            return TOPIC, 0, offset, value(f"s{n}", offset, upsert("orders", {"id": n}, **values))

        first = [record(n, n, state=f"s{n}", total=n / 3) for n in range(500)]
        second = [record(500 + n, n, paid=n % 2 == 0) for n in range(500)]
        with self.open([ORDERS]) as sink:
            assert sink.apply(first).upserts == 500
            assert sink.apply(second).upserts == 500
            gone = upsert("orders", {"id": 0})["key"]
            changes = [
                {"op": "delete", "table": "orders", "key": gone | {"id": n}} for n in range(99)
            ]
            assert sink.apply([(TOPIC, 0, 1000, value("x", 1, *changes))]).deletes == 99
            assert sink.apply([*first, *second]).replayed == 1000
        assert self.rows("orders") == {
            (n,): {"state": f"s{n}", "total": n / 3, "paid": n % 2 == 0} for n in range(99, 500)
        }

    def test_two_sinks_take_turns(self) -> None:
        with self.open([ORDERS]) as one, self.open([ORDERS]) as other:
            one.apply([order(0, 1, state="new", extra=1)])
            assert other.apply([order(0, 1, state="new", extra=1)]).replayed == 1
            assert other.apply([order(1, 2, extra=2)]).applied == 1
            assert one.apply([order(1, 2, extra=2), order(2, 3, more=3)]).applied == 1
        assert self.rows("orders") == {(1,): {"state": "new", "extra": 2, "more": 3}}

    def test_whoever_may_read_a_table_may_read_the_one_that_takes_its_place(self) -> None:
        role = f"reader_{self.url.split('?')[0][-8:]}"
        self.apply(order(0, 1, state="live"))
        self.run(f'CREATE ROLE "{role}"; GRANT SELECT ON orders TO "{role}"')
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([order(0, 1, state="shadow")])
        with self.open([ORDERS]) as live:
            live.switch("next", [TOPIC])
        with psycopg.connect(self.url) as connection:
            connection.execute(f'SET ROLE "{role}"')
            assert connection.execute("SELECT state FROM orders").fetchall() == [("shadow",)]

    def test_whoever_may_read_a_column_may_read_it_in_the_one_that_takes_its_place(self) -> None:
        role = f"columns_{self.url.split('?')[0][-8:]}"
        self.apply(order(0, 1, state="live", extra=1))
        self.run(f'CREATE ROLE "{role}"; GRANT SELECT (state, extra) ON orders TO "{role}"')
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([order(0, 1, state="shadow")])
        with self.open([ORDERS]) as live:
            live.switch("next", [TOPIC])
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'SET ROLE "{role}"')
            assert connection.execute("SELECT state FROM orders").fetchall() == [("shadow",)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT id FROM orders")

    @pytest.mark.parametrize("trusted", [True, False])
    def test_whoever_writes_the_live_tables_may_write_those_that_take_their_place(
        self, trusted: bool
    ) -> None:
        role = f"writer_{trusted}_{self.url.split('?')[0][-8:]}".lower()
        self.run(
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC;"
            f'CREATE ROLE "{role}"; CREATE ROLE "{role}_switch";'
            f'GRANT ALL ON SCHEMA public TO "{role}_switch"; GRANT "{role}" TO "{role}_switch"'
        )
        if trusted:  # to make tables, without which none can be given to it
            self.run(f'GRANT CREATE ON SCHEMA public TO "{role}"')
        self.apply(order(0, 1, state="live"))
        for (name,) in self.select("SELECT relname FROM pg_class WHERE relkind = 'r' "
                                   "AND relnamespace = 'public'::regnamespace"):  # fmt: skip
            self.run(f'ALTER TABLE "{name}" OWNER TO "{role}"')
        other = PostgresSink(f"{self.url}&options=-c%20role%3D{role}_switch", [ORDERS], "next")
        with other as shadow:
            made = value("b", 1, upsert("made", {"id": 1}, x=1))
            shadow.apply([order(0, 1, state="shadow"), (TOPIC, 0, 1, made)])
        with PostgresSink(f"{self.url}&options=-c%20role%3D{role}_switch", [ORDERS]) as live:
            live.switch("next", [TOPIC])
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'SET ROLE "{role}"')
            connection.execute("UPDATE orders SET state = 'written'")
            connection.execute("UPDATE made SET x = 2")
            owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'orders'"
            assert connection.execute(owner).fetchone() == (role if trusted else f"{role}_switch",)

    def test_keys_of_a_type_without_a_collation_are_read_in_order(self) -> None:
        self.run("CREATE TABLE own (id UUID PRIMARY KEY, of UUID, n BIGINT)")
        ids = [f"{n}0000000-0000-0000-0000-000000000000" for n in "b1a"]
        changes = [upsert("own", {"id": each}, of=each, n=1) for each in ids]
        with self.open() as sink:
            assert sink.apply([(TOPIC, 0, 0, value("a", 1, *changes))]).dead == 0
            assert list(sink.rows("own")) == [{"id": e, "of": e, "n": 1} for e in sorted(ids)]

    def test_a_table_without_row_level_security_takes_the_place_of_none_that_has_it(self) -> None:
        self.apply(order(0, 1, state="live"))
        self.run("ALTER TABLE orders ENABLE ROW LEVEL SECURITY")
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([order(0, 1, state="shadow")])
        with self.open([ORDERS]) as live:
            with pytest.raises(StoreError, match="make the policies for 'orders__next'"):
                live.switch("next", [TOPIC])
            assert self.rows("orders") == {(1,): {"state": "live"}}
            self.run("ALTER TABLE orders__next ENABLE ROW LEVEL SECURITY")
            live.switch("next", [TOPIC])
        assert self.rows("orders") == {(1,): {"state": "shadow"}}

    @pytest.mark.parametrize("rows", [1, 60])
    def test_a_column_that_somebody_else_makes_another_one_takes_its_values_whole(
        self, rows: int
    ) -> None:
        """Also where many go by a temporary table, which was made before."""
        self.run("CREATE TABLE sums (id BIGINT PRIMARY KEY, total NUMERIC(10, 2), day DATE)")
        for number in range(9):  # they are called as temporary ones are, and are somebody's
            self.run(f"CREATE TABLE _stage_{number} (a TEXT)")

        def batch(at: int, total: float, day: str) -> list[OutputRecord]:
            changes = [upsert("sums", {"id": n}, total=total, day=day) for n in range(rows)]
            return [(TOPIC, 0, at, value("a", at + 1, *changes))]

        with self.open() as sink:
            sink.apply(batch(0, 1.25, "2026-01-01"))
            self.run(
                "ALTER TABLE sums ALTER total TYPE NUMERIC(12, 4);"
                "ALTER TABLE sums ALTER day TYPE TEXT"
            )
            sink.apply(batch(1, 1.2345, "2026-01-01T10:00"))
        assert self.rows("sums")[0,] == {"total": Decimal("1.2345"), "day": "2026-01-01T10:00"}
        assert self.select("SELECT count(*) FROM pg_class WHERE relname ~ '^_stage_' "
                           "AND relnamespace = 'public'::regnamespace") == [(9,)]  # fmt: skip

    def test_what_a_trigger_refuses_is_dead_and_keys_that_are_one_to_the_database_are_not(
        self,
    ) -> None:
        self.run(
            "CREATE TABLE names (id CHAR(5) PRIMARY KEY, total BIGINT, "
            "twice BIGINT GENERATED ALWAYS AS (total * 2) STORED);"
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN IF NEW.total = 13 THEN RAISE EXCEPTION 'never'; END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER refuse BEFORE INSERT ON names FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        records = [
            (TOPIC, 0, n, value(f"s{n}", 1, upsert("names", {"id": name}, **{column: n})))
            for n, (name, column) in enumerate(
                [*((f"n{n}", "total") for n in range(60)), ("a", "total"), ("a ", "total"),
                 ("b", "twice")]
            )
        ]  # fmt: skip
        with self.open() as sink:
            done = sink.apply(records)
            assert (done.applied, done.dead) == (61, 2)
        refused, generated = self.dead()
        assert (refused[2], "never" in refused[3]) == (13, True)
        assert (generated[2], "twice" in generated[3]) == (62, True)
        assert self.rows("names")["a    ",] == {"total": 61, "twice": 122}

    @pytest.mark.parametrize(
        "refuses",
        [
            "RAISE EXCEPTION 'never' USING ERRCODE = 'ORD01'",
            "SELECT 1 INTO STRICT NEW.total FROM names WHERE false",
            "CASE NEW.total WHEN 1 THEN NULL; END CASE",
        ],
    )
    def test_whatever_a_trigger_ends_with_is_dead_and_the_rest_goes_on(self, refuses: str) -> None:
        self.run(
            "CREATE TABLE names (id TEXT PRIMARY KEY, total BIGINT);"
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN IF NEW.total = 13 THEN {refuses}; END IF; RETURN NEW; END $$;"
            "CREATE TRIGGER refuse BEFORE INSERT ON names FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
        rows = [upsert("names", {"id": f"n{n}"}, total=n) for n in range(12, 15)]
        done = self.apply(*((TOPIC, 0, n, value("a", n, row)) for n, row in enumerate(rows)))
        assert (done.applied, done.dead) == (2, 1)
        assert [row[2] for row in self.dead()] == [1]

    def test_columns_that_an_index_only_includes_are_no_key(self) -> None:
        self.run("CREATE TABLE t (id BIGINT, x BIGINT, n BIGINT, PRIMARY KEY (id) INCLUDE (x))")
        assert self.apply((TOPIC, 0, 0, value("a", 1, upsert("t", {"id": 1}, x=2, n=3)))).dead == 0
        assert self.select("SELECT * FROM t") == [(1, 2, 3)]

    def test_a_table_or_column_that_there_cannot_be_is_dead_and_the_rest_goes_on(self) -> None:
        self.run(
            "CREATE TYPE mood AS ENUM ('good');"
            "CREATE TABLE parts (id BIGINT PRIMARY KEY, n BIGINT) PARTITION BY RANGE (id);"
            "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10)"
        )
        changes = [
            upsert("tiles", {"id": 1}, n=1),
            # What is known not to be, by its name or its key.
            *(upsert("tiles", {"id": 1}, **{name: 3}) for name in ("xmin", "ctid", "tableoid")),
            upsert("new", {"cmax": 1}),
            upsert("pg_settings", {"id": 1}),
            upsert("wide", {f"k{n}": n for n in range(33)}),
            # What the database says of an index, of a type, and of a table that is a part.
            upsert("tiles_pkey", {"id": 1}),
            upsert("mood", {"id": 1}),
            upsert("part", {"id": 1}, more=1),
            upsert("tiles", {"id": 1}, XMIN=2),
            upsert("part", {"id": 1}, n=1),
            upsert("wide", {f"k{n}": n for n in range(32)}, n=1),
        ]
        records = [(TOPIC, 0, at, value("a", at, each)) for at, each in enumerate(changes)]
        with self.open() as sink:
            done = sink.apply(records, Batch("q", 0))
            assert (done.applied, done.dead) == (4, 9)
            assert sink.last_batch("q") == 0
        assert self.rows("tiles") == {(1,): {"n": 1, "XMIN": 2}}
        assert self.rows("part") == {(1,): {"n": 1}}
        reasons = [reason for *_, reason, _ in self.dead()]
        for name, reason in zip(("tiles_pkey", "mood", "partition"), reasons[-3:], strict=True):
            assert name in reason

    def test_what_the_database_has_not_the_right_to_make_is_a_store_error(self) -> None:
        role = f"writer_{self.url.split('?')[0][-8:]}"
        self.apply(order(0, 1))
        self.run(
            f'CREATE ROLE "{role}"; GRANT ALL ON ALL TABLES IN SCHEMA public TO "{role}";'
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC"
        )
        with self.open([ORDERS]) as sink:
            sink.database.run(f'SET ROLE "{role}"')
            with pytest.raises(StoreError, match="permission denied") as error:
                sink.apply([(TOPIC, 0, 1, value("a", 2, upsert("new", {"id": 1})))])
            assert not isinstance(error.value, DataRefused)
            sink.database.run("RESET ROLE")
            assert sink.apply([order(1, 2)]).applied == 1

    def test_names_are_read_as_they_are_whatever_private_characters_they_have(self) -> None:
        names = ["a\ue0000", "b\ue000e", "c\ue000"]
        tables = [Table(names[0], {"id": int}, {})]
        for at in range(2):
            with self.open(tables) as sink:
                rows = [upsert(name, {"id": 1}, **dict.fromkeys(names, at)) for name in names]
                done = sink.apply([(TOPIC, 0, at, value("a", at, *rows))])
                assert (done.applied, done.dead) == (1, 0)
        role = f"private_{self.url.split('?')[0][-8:]}"
        self.run(f'CREATE ROLE "{role}"; GRANT SELECT ("{names[1]}") ON "{names[0]}" TO "{role}"')
        with self.open(tables, "next") as shadow:
            shadow.apply([(TOPIC, 0, 1, value("a", 1, *rows))])
            shadow.seek([Position(TOPIC, 0, 2)])
        with self.open(tables) as live:
            live.switch("next", [TOPIC])
            assert live.shadows() == ["old"]
        for name in names:
            assert self.rows(name) == {(1,): dict.fromkeys(names, 1)}
        with psycopg.connect(self.url) as connection:
            connection.execute(f'SET ROLE "{role}"')
            sql = f'SELECT "{names[1]}" FROM "{names[0]}"'
            assert connection.execute(sql).fetchall() == [(1,)]

    def test_a_store_may_be_a_schema_of_a_database(self) -> None:
        self.run('CREATE SCHEMA "read store"')
        place = f"{self.url}&options=-csearch_path%3D%22read%5C%20store%22"
        with open_sink(place, [ORDERS]) as sink:
            assert sink.apply([order(0, 1, state="apart")]).applied == 1
        assert self.select('SELECT state FROM "read store".orders') == [("apart",)]
        assert self.rows("nothing") == {}
        with self.open() as sink:
            assert sink.progress() == []

    def test_a_layout_of_another_version_is_refused(self) -> None:
        self.run("CREATE TABLE _layout (number BIGINT); INSERT INTO _layout VALUES (99)")
        with pytest.raises(StoreError, match="layout 99"):
            self.open()

    def test_a_server_that_is_not_there_is_told_without_the_password(self) -> None:
        with pytest.raises(StoreError) as refused:
            PostgresSink("postgresql://me:hush@127.0.0.1:1/none")
        assert "hush" not in str(refused.value)
        assert "127.0.0.1" in str(refused.value)


def _padding(rows: int) -> list[dict[str, Any]]:
    more: dict[str, Any] = {"number": 1, "real": 1.0, "text": "", "flag": True}
    return [upsert("t", {"id": 1000 + n}, **more) for n in range(rows)]
