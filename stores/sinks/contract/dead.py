"""Records that cannot be applied are kept with the reason."""

import pytest

from stores.sinks import DeadRecord, OutputRecord, StoreError
from stores.sinks.contract.example_records import ORDERS, TOPIC, delete, order, upsert, value
from stores.sinks.contract.store import StoreUnderTest

BAD: list[tuple[bytes | None, str]] = [
    (None, "no value"),
    (b"{", "not JSON"),
    (b"\xff", "not JSON"),
    (b"[1]", "no object"),
    (b"5", "no object"),
    (b'{"view":"v","stream":"s","sequence":1}', "changes"),
    (value("a", "7"), "sequence '7'"),
    (value("a", True), "sequence True"),
    (value("a", 2**63), "64 bits"),
    (value("a", 1, epoch=-1), "epoch -1"),
    (value("a", 1, epoch=True), "epoch True"),
    (value("a", 1, epoch="1"), "epoch '1'"),
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
    (value("a", 1, upsert("n" * 53, {"id": 1})), "52 bytes"),
    (value("a", 1, upsert("a\0b", {"id": 1})), "NUL"),
    (value("a", 1, upsert("_dead", {"id": 1})), "store's own"),
    (value("a", 1, upsert("sqlite_x", {"id": 1})), "store's own"),
    (value("a", 1, upsert("orders", {"id": 1}, **{"c" * 64: 1})), "63 bytes"),
    (value("a", 1, upsert("new", {"": 1})), "name"),
]
"""(a record's value, a part of the reason why it cannot be applied)."""


class EachDeadContract(StoreUnderTest):
    """Bad records one by one, for stores that are quick."""

    @pytest.mark.parametrize(("body", "reason"), BAD)
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


class DeadContract(StoreUnderTest):
    def test_bad_records_are_kept_with_the_reason_and_the_others_are_applied(self) -> None:
        records: list[OutputRecord] = []
        for at, (body, _) in enumerate(BAD):
            good = value("good", at, upsert("orders", {"id": 1}, state=f"s{at}"))
            records += [(TOPIC, 0, 2 * at, good), (TOPIC, 0, 2 * at + 1, body)]
        done = self.apply(*records)
        assert (done.applied, done.dead) == (len(BAD), len(BAD))
        assert self.rows("orders") == {(1,): {"state": f"s{len(BAD) - 1}"}}
        found = sorted(self.dead(), key=lambda row: row[2])
        for at, ((body, reason), (topic, partition, offset, why, kept)) in enumerate(
            zip(BAD, found, strict=True)
        ):
            assert (topic, partition, offset, kept) == (TOPIC, 0, 2 * at + 1, body)
            assert reason in why
        assert self.apply(*records).replayed == len(records)
        assert len(self.dead()) == len(BAD)

    def test_dead_records_are_told_before_the_batch_is_committed(self) -> None:
        told: list[list[DeadRecord]] = []

        def fail(dead: list[DeadRecord]) -> None:
            told.append(dead)
            raise _NotTold

        records = [order(0, 1, state="new"), (TOPIC, 0, 1, b"{"), (TOPIC, 0, 2, b"[")]
        with self.open([ORDERS]) as sink:
            with pytest.raises(_NotTold):
                sink.apply(records, on_dead=fail)
            assert sink.progress() == []
            assert sink.apply(records, on_dead=told.append).dead == 2
            assert sink.apply(records, on_dead=told.append).replayed == 3
        assert [[dead.offset for dead in each] for each in told] == [[1, 2], [1, 2]]
        assert told[0] == told[1]
        assert told[0][0].value == b"{"

    def test_streams_of_which_one_cannot_be_applied_replace_nothing(self) -> None:
        good, bad = upsert("orders", {"id": 1}, state="new"), upsert("orders", {"id": 2}, total="x")
        with self.open([ORDERS]) as sink:
            sink.apply([order(0, 0, state="old")])
            records = [(TOPIC, -1, 0, value("a", 1, good)), (TOPIC, -1, 1, value("b", 1, bad))]
            with pytest.raises(StoreError, match=r"stream 'b' cannot be applied: .*'total'"):
                sink.replace_streams(records, sink.progress())
        assert self.rows("orders") == {(1,): {"state": "old"}}

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


class _NotTold(Exception):
    pass
