"""What every read-store sink has to do. A backend's test class inherits it and says how to look."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stores.sink import Applied, Batch, DeclaredTable, OutputRecord, Position, Sink, StoreError
from topology.table import Table

TOPIC = "shop.orders"
ORDERS = Table("orders", key={"id": int}, columns={"state": str, "total": float, "paid": bool})

Rows = dict[tuple[Any, ...], dict[str, Any]]
Change = dict[str, Any]


def upsert(table: str, key: Mapping[str, Any], **values: Any) -> Change:
    return {"op": "upsert", "table": table, "key": dict(key), "values": values}


def delete(table: str, key: Mapping[str, Any]) -> Change:
    return {"op": "delete", "table": table, "key": dict(key)}


def value(stream: str, sequence: Any, *changes: Any, view: str = "orders") -> bytes:
    """The value of an output record."""
    return orjson.dumps({"view": view, "stream": stream, "sequence": sequence, "changes": changes})


def order(offset: int, sequence: int, **values: Any) -> OutputRecord:
    """A record of stream "a" that upserts row 1 of the table orders."""
    return TOPIC, 0, offset, value("a", sequence, upsert("orders", {"id": 1}, **values))


class SinkContract:
    """Inherit, and write `open`, `rows`, `dead` and `steps`; each test gets an empty store."""

    steps: ClassVar[Sequence[str]]
    """Methods of the sink, in order, that a transaction consists of."""

    def open(self, tables: Iterable[DeclaredTable] = ()) -> Sink:
        """Open the test's store."""
        raise NotImplementedError

    def rows(self, table: str) -> Rows:
        """Primary key → other columns that are not null; read without the sink."""
        raise NotImplementedError

    def dead(self) -> list[tuple[str, int, int, str, bytes | None]]:
        """The records that could not be applied: (topic, partition, offset, reason, value)."""
        raise NotImplementedError

    def forget(self) -> None:
        """Empty the store."""
        raise NotImplementedError

    def apply(self, *records: OutputRecord) -> Applied:
        """Apply a batch with a sink of its own, as after a restart."""
        with self.open([ORDERS]) as sink:
            return sink.apply(records)

    # Rows

    def test_an_upsert_inserts_and_then_merges(self) -> None:
        self.apply(order(0, 1, state="new", total=2.5))
        self.apply(order(1, 2, state="paid", paid=True))
        assert self.rows("orders") == {(1,): {"state": "paid", "total": 2.5, "paid": True}}

    def test_changes_of_one_row_in_one_batch_are_merged(self) -> None:
        done = self.apply(order(0, 1, state="new", total=2.5), order(1, 2, state="paid"))
        assert self.rows("orders") == {(1,): {"state": "paid", "total": 2.5}}
        assert (done.records, done.applied, done.upserts) == (2, 2, 1)

    def test_null_sets_a_column_to_null(self) -> None:
        self.apply(order(0, 1, state="new", total=1.0), order(1, 2, total=None))
        self.apply(order(2, 3, state=None))
        assert self.rows("orders") == {(1,): {}}

    def test_an_upsert_without_values_makes_the_row(self) -> None:
        self.apply(order(0, 1))
        self.apply(order(1, 2))
        assert self.rows("orders") == {(1,): {}}

    def test_a_delete_deletes_and_a_missing_row_is_no_error(self) -> None:
        self.apply(order(0, 1, state="new"))
        gone = delete("orders", {"id": 1}), delete("orders", {"id": 99})
        done = self.apply((TOPIC, 0, 1, value("a", 2, *gone)))
        assert self.rows("orders") == {}
        assert (done.applied, done.upserts, done.deletes) == (1, 0, 2)

    @pytest.mark.parametrize("together", [True, False])
    def test_a_row_after_its_delete_starts_anew(self, together: bool) -> None:
        records = [
            order(0, 1, state="new", total=1.0),
            (TOPIC, 0, 1, value("a", 2, delete("orders", {"id": 1}))),
            order(2, 3, paid=False),
            order(3, 4, state="again"),
        ]
        for batch in [records] if together else [[record] for record in records]:
            self.apply(*batch)
        assert self.rows("orders") == {(1,): {"paid": False, "state": "again"}}

    def test_changes_of_one_record_apply_in_their_order(self) -> None:
        key = {"id": 1}
        changes = upsert("orders", key, state="x"), delete("orders", key), upsert("orders", key)
        self.apply((TOPIC, 0, 0, value("a", 1, *changes)))
        assert self.rows("orders") == {(1,): {}}

    def test_records_are_taken_in_offset_order(self) -> None:
        done = self.apply(order(2, 3, state="last"), order(0, 1, state="new"), order(1, 2))
        assert done.applied == 3
        assert self.rows("orders") == {(1,): {"state": "last"}}

    def test_two_streams_of_one_partition_share_a_row_in_offset_order(self) -> None:
        row = {"id": 1}
        self.apply(
            (TOPIC, 0, 0, value("a", 100, upsert("orders", row, state="a", total=1.0))),
            (TOPIC, 0, 1, value("b", 1, upsert("orders", row, state="b"))),
        )
        assert self.rows("orders") == {(1,): {"state": "b", "total": 1.0}}

    # Exactly once

    def test_a_replayed_batch_changes_nothing(self) -> None:
        batch = [order(0, 1, state="new"), order(1, 2, state="paid")]
        self.apply(*batch)
        self.apply(order(2, 3, state="sent"))
        done = self.apply(*batch)
        assert (done.replayed, done.applied, done.upserts) == (2, 0, 0)
        assert self.rows("orders") == {(1,): {"state": "sent"}}

    def test_a_replay_that_overlaps_applies_what_is_new(self) -> None:
        records = [order(at, at + 1, state=f"s{at}") for at in range(6)]
        self.apply(*records[:4])
        done = self.apply(*records[2:])
        assert (done.replayed, done.applied) == (2, 2)
        assert self.rows("orders") == {(1,): {"state": "s5"}}

    def test_a_record_that_comes_twice_in_a_batch_is_applied_once(self) -> None:
        done = self.apply(order(0, 1, state="new"), order(0, 1, state="new"))
        assert (done.applied, done.replayed) == (1, 1)

    def test_a_duplicate_at_a_later_offset_is_fenced(self) -> None:
        self.apply(order(0, 1, state="new"), order(1, 2, state="paid"))
        done = self.apply(order(2, 1, state="new"), order(3, 2, state="paid"))
        assert (done.duplicates, done.applied) == (2, 0)
        together = self.apply(order(4, 3, state="sent"), order(5, 2, state="paid"))
        assert (together.duplicates, together.applied) == (1, 1)
        assert self.rows("orders") == {(1,): {"state": "sent"}}

    def test_a_duplicate_does_not_bring_a_deleted_row_back(self) -> None:
        self.apply(order(0, 1, state="new"))
        self.apply((TOPIC, 0, 1, value("a", 2, delete("orders", {"id": 1}))))
        self.apply(order(2, 1, state="new"))
        self.apply(order(0, 1, state="new"))
        assert self.rows("orders") == {}

    def test_views_topics_and_streams_are_fenced_apart(self) -> None:
        row = {"id": 1}
        done = self.apply(
            order(0, 7, state="a"),
            (TOPIC, 0, 1, value("b", 7, upsert("orders", row, state="b"))),
            (TOPIC, 0, 2, value("a", 7, upsert("orders", row, state="c"), view="other")),
            ("cafe.orders", 0, 0, value("a", 7, upsert("orders", row, state="d"))),
            (TOPIC, 0, 3, value("a\0b", 7, upsert("orders", row, total=1.0))),
            (TOPIC, 0, 4, value("a\0c", 7, upsert("orders", row, total=2.0))),
        )
        assert (done.applied, done.duplicates) == (6, 0)
        assert self.apply((TOPIC, 0, 9, value("a\0b", 7))).duplicates == 1

    @pytest.mark.parametrize("sequence", [0, -5, 2**63 - 1, -(2**63)])
    def test_any_sequence_of_64_bits_is_fenced(self, sequence: int) -> None:
        assert self.apply(order(0, sequence, state="new")).applied == 1
        assert self.apply(order(1, sequence, state="again")).duplicates == 1

    def test_many_streams_are_fenced(self) -> None:
        def records(first: int) -> list[OutputRecord]:
            changes = [upsert("orders", {"id": n}, state="new") for n in range(1234)]
            return [(TOPIC, 0, first + n, value(f"s{n}", 1, changes[n])) for n in range(1234)]

        assert self.apply(*records(0)).applied == 1234
        assert self.apply(*records(5000)).duplicates == 1234

    @pytest.mark.parametrize("which", ["before", "after"])
    def test_a_crash_at_any_step_leaves_all_as_it_was(
        self, which: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.apply(order(0, 1, state="new"), (TOPIC, 0, 1, b"dead"))
        before = self.state()
        batch = [
            order(2, 2, state="paid", added="column"),
            (TOPIC, 0, 3, value("b", 1, upsert("other", {"id": "x"}, a=1))),
            (TOPIC, 0, 4, value("c", 1, delete("orders", {"id": 1}))),
            (TOPIC, 1, 0, b"dead"),
        ]
        for step in self.steps:
            with monkeypatch.context() as patch, self.open([ORDERS]) as sink:
                patch.setattr(sink, step, _crashing(getattr(sink, step), which))
                with pytest.raises(_Crash):
                    sink.apply(batch, Batch("query", 0))
            assert self.state() == before, step
            assert self.rows("other") == {}, step
        with self.open([ORDERS]) as sink:
            assert sink.apply(batch, Batch("query", 0)).applied == 3
        assert self.rows("other") == {("x",): {"a": 1}}
        assert self.rows("orders") == {}
        assert len(self.dead()) == 2

    def state(self) -> tuple[Rows, list[Any], list[Position]]:
        with self.open() as sink:
            return self.rows("orders"), self.dead(), sink.progress()

    def test_progress_says_where_records_ended(self) -> None:
        self.apply(order(0, 1), order(1, 2), (TOPIC, 2, 7, b"dead"), order(5, 2), order(1, 2))
        self.apply(order(1, 2))
        with self.open() as sink:
            assert sink.progress() == [
                Position(TOPIC, 0, 6, applied=2, duplicates=1),
                Position(TOPIC, 2, 8, dead=1),
            ]

    def test_an_empty_batch_is_recorded(self) -> None:
        with self.open() as sink:
            assert sink.last_batch("query") is None
            assert sink.apply([], Batch("query", 0)) == Applied()
            assert sink.last_batch("query") == 0
            assert sink.apply([order(0, 1)], Batch("query", 1)).applied == 1

    def test_a_checkpoint_that_is_ahead_is_refused(self) -> None:
        with self.open() as sink:
            with pytest.raises(StoreError, match="ahead of the read store"):
                sink.apply([order(0, 1)], Batch("query", 1))
            assert sink.progress() == []
            sink.apply([order(0, 1)], Batch("query", 0))
            sink.apply([order(0, 1)], Batch("query", 0))
            sink.apply([order(1, 2)], Batch("query", 1))
            with pytest.raises(StoreError, match="Delete the checkpoint"):
                sink.apply([order(3, 4)], Batch("query", 3))
            assert sink.apply([order(2, 3)], Batch("another", 0)).applied == 1

    def test_a_topic_that_was_made_again_is_refused_rather_than_passed(self) -> None:
        self.apply(*(order(at, at + 1) for at in range(5)), (TOPIC, 0, 5, b"dead"))
        with pytest.raises(StoreError, match="made again"):
            self.apply(order(0, 6, state="lost otherwise"))
        assert self.rows("orders") == {(1,): {}}

    def test_a_dead_record_may_be_replayed_ahead_of_its_stream(self) -> None:
        dead = (TOPIC, 0, 1, value("a", 2, upsert("orders", {"id": "no number"})))
        self.apply(order(0, 1), dead)
        assert self.apply(order(0, 1), dead).replayed == 2
        assert self.apply(dead).replayed == 1

    # Tables and columns

    def test_declared_tables_are_there_before_any_record(self) -> None:
        with self.open([ORDERS]):
            pass
        assert self.rows("orders") == {}
        with self.open([ORDERS]) as sink:
            assert sink.apply([order(0, 1, state="new")]).applied == 1

    def test_a_column_that_is_declared_later_is_added(self) -> None:
        self.apply(order(0, 1, state="new"))
        wider = Table("orders", ORDERS.key, {**ORDERS.columns, "note": str})
        with self.open([wider]) as sink:
            sink.apply([order(1, 2, note="x")])
        assert self.rows("orders") == {(1,): {"state": "new", "note": "x"}}

    @pytest.mark.parametrize(
        "other",
        [
            Table("orders", {"number": int}, {}),
            Table("orders", {"id": str}, {}),
            Table("orders", {"id": int, "line": int}, {}),
            Table("orders", ORDERS.key, {"state": int}),
            Table("orders", ORDERS.key, {"STATE": str}),
            Table("ORDERS", ORDERS.key, {}),
        ],
    )
    def test_a_declaration_that_contradicts_the_store_is_refused(self, other: Table) -> None:
        with self.open([ORDERS]):
            pass
        with pytest.raises(StoreError, match=r"(?i)orders"):
            self.open([other])

    def test_a_column_that_comes_later_is_added(self) -> None:
        self.apply(order(0, 1, state="new", extra=None))
        self.apply(order(1, 2, extra=5), order(2, 3, more="text"))
        assert self.rows("orders") == {(1,): {"state": "new", "extra": 5, "more": "text"}}

    def test_undeclared_tables_are_inferred(self) -> None:
        with self.open() as sink:
            row = {"region": "north", "day": 3}
            sink.apply(
                [
                    (TOPIC, 0, 0, value("a", 1, upsert("sales", row, sum=1, nested={"x": [1]}))),
                    (TOPIC, 0, 1, value("a", 2, upsert("sales", row, sum=2.5, good=True))),
                ]
            )
        found = self.rows("sales")
        assert list(found) in ([("north", 3)], [(3, "north")])
        assert list(found.values()) == [{"sum": 2.5, "nested": '{"x":[1]}', "good": True}]

    def test_values_are_fitted_to_the_declared_types(self) -> None:
        table = Table("t", {"k": str}, {"i": int, "f": float, "s": str, "b": bool})
        with self.open([table]) as sink:
            sink.apply(
                [(TOPIC, 0, 0, value("a", 1, upsert("t", {"k": 5}, i=5.0, f=1, s={"a": 1}, b=1)))]
            )
        assert self.rows("t") == {("5",): {"i": 5, "f": 1.0, "s": '{"a":1}', "b": True}}

    def test_key_values_of_other_types_are_the_same_row(self) -> None:
        with self.open([ORDERS]) as sink:
            rows = [upsert("orders", {"id": 1}, state="a"), upsert("orders", {"id": 1.0}, total=2)]
            sink.apply([(TOPIC, 0, 0, value("a", 1, *rows))])
        assert self.rows("orders") == {(1,): {"state": "a", "total": 2.0}}

    def test_the_key_may_be_repeated_in_the_values(self) -> None:
        done = self.apply(order(0, 1, id=1, state="new"))
        assert done.applied == 1
        assert self.rows("orders") == {(1,): {"state": "new"}}

    @pytest.mark.parametrize(
        "name",
        [
            'quo"te',
            "semi; DROP TABLE orders; --",
            "SELECT",
            "ümläut 表",
            "a.b",
            "%s ? :x",
            "x" * 63,
        ],
    )
    def test_odd_names_are_only_names(self, name: str) -> None:
        self.apply(order(0, 1, state="new"))
        change = upsert(name, {name + "": 1}, **{"other": 1})
        key_and_column = upsert("odd", {"id": 1}, **{name: "v"})
        done = self.apply((TOPIC, 0, 1, value("a", 2, change, key_and_column)))
        assert (done.applied, done.dead) == (1, 0)
        assert self.rows(name) == {(1,): {"other": 1}}
        assert self.rows("odd") == {(1,): {name: "v"}}
        self.apply((TOPIC, 0, 2, value("a", 3, delete(name, {name: 1}))))
        assert self.rows(name) == {}
        assert self.rows("orders") == {(1,): {"state": "new"}}

    # Dead records

    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            (None, "no value"),
            (b"{", "not JSON"),
            (b"\xff", "not JSON"),
            (b"[1]", "no object"),
            (b"5", "no object"),
            (b'{"view":"v","stream":"s","sequence":1}', "changes"),
            (value("a", "7"), "sequence '7'"),
            (value("a", True), "sequence True"),
            (value("a", 2**63), "64 bits"),
            (b'{"view":"v","stream":5,"sequence":1,"changes":[]}', "stream 5"),
            (b'{"view":"v","stream":"s","sequence":1,"changes":{}}', "no list"),
            (value("a", 1, "x"), "no object"),
            (value("a", 1, {"op": "merge", "table": "orders", "key": {"id": 1}}), "'merge'"),
            (value("a", 1, {"op": "upsert", "table": "orders", "key": {"id": 1}}), "no values"),
            (value("a", 1, {"op": "upsert", "table": "orders", "values": {}}), "no key"),
            (value("a", 1, upsert("orders", {})), "no key"),
            (value("a", 1, upsert("orders", {"number": 1})), "primary key is"),
            (value("a", 1, upsert("orders", {"id": 1, "line": 2})), "primary key is"),
            (value("a", 1, upsert("orders", {"id": None})), "null"),
            (value("a", 1, delete("orders", {"id": "x"})), "'x' is no int"),
            (value("a", 1, upsert("orders", {"id": 1.5})), "no int"),
            (value("a", 1, upsert("orders", {"id": 2**63})), "64 bits"),
            (value("a", 1, upsert("orders", {"id": 1}, total="many")), "'total'"),
            (value("a", 1, upsert("orders", {"id": 1}, paid=2)), "no bool"),
            (value("a", 1, upsert("orders", {"id": 1}, extra=2**63)), "64 bits"),
            (value("a", 1, upsert("orders", {"id": 1}, id=2)), "change the key"),
            (value("a", 1, upsert("orders", {"id": 1}, State="x")), "one name"),
            (value("a", 1, upsert("Orders", {"id": 1})), "'orders' already"),
            (value("a", 1, upsert("new", {"id": 1, "ID": 2})), "case"),
            (value("a", 1, upsert("new", {"id": [1]})), "key value"),
            (value("a", 1, upsert("", {"id": 1})), "name"),
            (value("a", 1, upsert("n" * 64, {"id": 1})), "63 bytes"),
            (value("a", 1, upsert("a\0b", {"id": 1})), "NUL"),
            (value("a", 1, upsert("_dead", {"id": 1})), "store's own"),
            (value("a", 1, upsert("sqlite_x", {"id": 1})), "store's own"),
            (value("a", 1, upsert("orders", {"id": 1}, **{"c" * 64: 1})), "63 bytes"),
            (value("a", 1, upsert("new", {"": 1})), "name"),
        ],
    )
    def test_a_bad_record_is_kept_with_the_reason(self, body: bytes | None, reason: str) -> None:
        done = self.apply(order(0, 0, state="new"), (TOPIC, 0, 1, body), order(2, 2, state="ok"))
        assert (done.records, done.applied, done.dead) == (3, 2, 1)
        assert self.rows("orders") == {(1,): {"state": "ok"}}
        ((*at, why, kept),) = self.dead()
        assert (at, kept) == ([TOPIC, 0, 1], body)
        assert reason in why
        assert done.reason == f"{TOPIC}/0 offset 1: {why}"
        assert self.apply((TOPIC, 0, 1, body)).replayed == 1
        assert len(self.dead()) == 1

    def test_of_a_record_with_one_bad_change_nothing_is_applied(self) -> None:
        good = upsert("orders", {"id": 5}, state="x"), upsert("made", {"id": 1}, column=1)
        added = upsert("orders", {"id": 6}, added=1)
        bad = upsert("orders", {"id": "x"})
        self.apply((TOPIC, 0, 0, value("a", 1, *good, added, bad)))
        assert self.rows("orders") == {}
        assert len(self.dead()) == 1
        # A later record may make the same table and column otherwise.
        later = (
            upsert("made", {"other": "k"}, column="text"),
            upsert("orders", {"id": 6}, added="t"),
        )
        assert self.apply((TOPIC, 0, 1, value("a", 2, *later))).applied == 1
        assert self.rows("made") == {("k",): {"column": "text"}}

    def test_a_column_keeps_the_type_it_has(self) -> None:
        made = upsert("t", {"id": 1}, number=1, text="x", flag=True)
        self.apply((TOPIC, 0, 0, value("a", 1, made)))
        bad = [{"number": "05"}, {"flag": "yes"}]
        done = self.apply(
            *(
                (TOPIC, 0, 1 + n, value("a", 2 + n, upsert("t", {"id": 1}, **bad[n])))
                for n in (0, 1)
            ),
            (TOPIC, 0, 3, value("a", 4, upsert("t", {"id": 1}, number=2.5, text=5))),
        )
        assert (done.dead, done.applied) == (2, 1)
        assert self.rows("t") == {(1,): {"number": 2.5, "text": "5", "flag": True}}

    def test_names_made_from_data_are_bounded(self) -> None:
        with self.open([ORDERS]) as sink:
            wide = {f"c{n}": n for n in range(950)}
            done = sink.apply([(TOPIC, 0, 0, value("a", 1, upsert("orders", {"id": 1}, **wide)))])
            assert (done.applied, done.dead) == (0, 1)
            wide = {f"c{n}": n for n in range(890)}
            assert sink.apply([order(1, 2, **wide)]).applied == 1
            assert self.rows("orders") == {(1,): wide}

    # Everything at once

    @settings(
        max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )
    @given(st.data())
    def test_any_batches_with_any_replays_are_the_plain_fold(self, data: st.DataObject) -> None:
        self.forget()
        logs = [data.draw(_logs(partition)) for partition in (0, 1)]
        at = [0, 0]
        high = [0, 0]
        while any(at[p] < len(logs[p]) for p in (0, 1)) and data.draw(st.integers(0, 9)) < 9:
            batch: list[OutputRecord] = []
            for p in (0, 1):
                if data.draw(st.integers(0, 3)) == 0:
                    at[p] = data.draw(st.integers(0, at[p]))  # the checkpoint is gone
                end = data.draw(st.integers(at[p], len(logs[p])))
                batch += logs[p][at[p] : end]
                at[p] = end
                high[p] = max(high[p], end)
            self.apply(*data.draw(st.permutations(batch)))
        self.apply(*logs[0], *logs[1])
        expected = _fold([*logs[0], *logs[1]])
        assert {name: self.rows(name) for name in ("orders", "notes")} == expected


class _Crash(Exception):
    pass


def _crashing(step: Callable[..., Any], which: str) -> Callable[..., Any]:
    def crash(*arguments: Any) -> Any:
        if which == "after":
            step(*arguments)
        raise _Crash

    return crash


@st.composite
def _logs(draw: st.DrawFn, partition: int) -> list[OutputRecord]:
    """A partition's records: two streams, increasing sequences, duplicates, offsets with holes."""
    records: list[OutputRecord] = []
    sequences = {f"{name}{partition}": draw(st.integers(-3, 3)) for name in "ab"}
    written: dict[str, list[bytes]] = {stream: [] for stream in sequences}
    offset = 0
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.integers(1, 3))
        stream = draw(st.sampled_from(sorted(sequences)))
        if written[stream] and draw(st.integers(0, 3)) == 0:
            body = draw(st.sampled_from(written[stream]))  # its producer wrote it again
        else:
            sequences[stream] += draw(st.integers(1, 3))
            changes = draw(st.lists(_changes(partition), min_size=0, max_size=3))
            body = value(stream, sequences[stream], *changes)
            written[stream].append(body)
        records.append((TOPIC, partition, offset, body))
    return records


def _changes(partition: int) -> st.SearchStrategy[Change]:
    keys = st.sampled_from([partition * 10 + 1, partition * 10 + 2])
    orders = st.fixed_dictionaries(
        {},
        optional={
            "state": st.sampled_from(["new", "paid", None]),
            "total": st.sampled_from([1.5, None]),
            "added": st.sampled_from([1, 2, None]),
        },
    )
    return st.one_of(
        st.builds(lambda key, values: upsert("orders", {"id": key}, **values), keys, orders),
        st.builds(lambda key: delete("orders", {"id": key}), keys),
        st.builds(lambda key, n: upsert("notes", {"of": key, "n": n}, text="t"), keys, keys),
        st.builds(lambda key, n: delete("notes", {"of": key, "n": n}), keys, keys),
    )


def _fold(records: list[OutputRecord]) -> dict[str, Rows]:
    """What the tables should hold: record by record, with plain dictionaries."""
    tables: dict[str, Rows] = {"orders": {}, "notes": {}}
    last: dict[str, int] = {}
    for *_, body in records:
        record = orjson.loads(body or b"")
        if record["sequence"] <= last.get(record["stream"], -(2**63)):
            continue
        last[record["stream"]] = record["sequence"]
        for change in record["changes"]:
            rows, key = tables[change["table"]], tuple(change["key"].values())
            if change["op"] == "delete":
                rows.pop(key, None)
            else:
                rows.setdefault(key, {}).update(change["values"])
    return {
        name: {
            key: {column: value for column, value in row.items() if value is not None}
            for key, row in rows.items()
        }
        for name, rows in tables.items()
    }
