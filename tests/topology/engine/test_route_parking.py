"""A message that fails parks its stream: what is behind it waits in order, and others go on."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from topology import DeclarationError, Record, Topology, TopologyTestDriver
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import decode_intake
from topology.engine.parked_messages import ParkedMessages, parked_message, stream_of
from topology.engine.route_task import REDRIVEN, RouteTask
from topology.engine.state.foreign_rows import foreign
from topology.model.event import damaged
from topology.model.large import MESSAGE_BYTES
from topology.routing import FunctionKeys, RoutedSource, Rule, RuleSet

BAD: set[int] = set()


def keys(message: Any) -> dict[str, Any]:
    if message.offset in BAD:
        raise ValueError("it is bad")
    return {"to": "nowhere" if message.value == b"nowhere" else "a"}


RULES = RuleSet(
    1,
    sources=[RoutedSource("in", ("r",), module="m")],
    rules=[Rule("r", key="to", outbound="o")],
    destinations={"out": None},
    outbound={"o": {"a": "out"}},
    modules={"m": FunctionKeys(keys)},
)


class Partition:
    """A partition's task over what is durable of it; a new one after each crash."""

    def __init__(self) -> None:
        self.topology = Topology("t")
        self.route = self.topology.route(
            "r", rules=RULES, reload=lambda load, before: RULES, parks=True
        )
        self.table, self.sent, self.malformed = MemoryTable(), list[Any](), list[Any]()
        self.intake = ""
        self.crash()

    def crash(self) -> None:
        (table,) = self.route.tables
        self.parked = ParkedMessages(table.name, self.table)
        intake = decode_intake(self.intake)
        self.task = RouteTask(self.topology, self.route, intake, self.parked)

    def commit(self, unit: CommitUnit | None) -> bool:
        if unit is None:
            return False
        (rows,) = unit.rows.values() or [[]]
        assert not any(foreign(*row) for row in rows)
        self.table.write(rows)
        self.sent += unit.keyed.get("out", ())
        self.malformed += unit.keyed.get("t.malformed", ())
        self.intake = unit.intake
        return True

    def release(self, crashes: Iterator[bool]) -> None:
        while self.commit(self.task.release(("in", 0), 0)):
            if next(crashes):
                self.crash()


@given(st.data())
def test_each_stream_is_in_order_whatever_fails_is_let_go_or_dies(data: st.DataObject) -> None:
    BAD.clear()
    of, arrived = Partition(), defaultdict[bytes | None, list[int]](list)
    messages = data.draw(st.lists(st.sampled_from([None, b"", b"a\0", b"b", b"c" * 300])))
    BAD.update(data.draw(st.sets(st.integers(0, 30))))
    given_up: list[int] = []
    crashes = iter(lambda: data.draw(st.booleans()), None)
    at = 0
    while at < len(messages) or of.parked.total:
        if at >= len(messages):
            BAD.clear()
        some = messages[at : at + data.draw(st.integers(1, 5))]
        records = [Record("in", 0, at + n, key, b"%d" % (at + n)) for n, key in enumerate(some)]
        for record in records:
            arrived[record.key].append(record.offset)
        if records:
            lost = data.draw(st.booleans())
            unit = of.task.process(records, 0)
            if lost:  # it dies before the unit is durable, and reads them again
                of.crash()
                unit = of.task.process(records, 0)
            of.commit(unit)
            at += len(records)
        heads = {
            parked_message(row)[0].key: parked_message(row)[0]
            for row in reversed([row for _, row in of.table.scan(b"b", b"c")])
        }
        for head in heads.values():
            if data.draw(st.booleans()):
                without = data.draw(st.booleans())
                given_up += [head.offset] if without else []
                of.parked.release(stream_of(head), head.offset if without else None)
                if next(crashes):
                    of.crash()
                    of.parked.release(stream_of(head), head.offset if without else None)
                of.release(crashes)
                for each in [*of.parked.releasing]:
                    of.parked.releasing.pop(each)
        counts = decode_intake(of.intake)
        parked = [parked_message(row)[0].offset for _, row in of.table.scan(b"b", b"c")]
        assert (counts.read, counts.parked) == (at, len(parked))
        assert counts.malformed == len(of.malformed)
        assert counts.events == len(of.sent)
    sent = defaultdict[bytes | None, list[int]](list)
    for key, value, _, _ in of.sent:
        sent[key].append(int(value))
    left_out = {int(value) for _, value, _, _ in of.malformed}
    assert left_out <= {*given_up}
    for key, offsets in arrived.items():
        assert sent[key] == [each for each in offsets if each not in left_out]


def test_what_is_parked_says_why_and_comes_as_it_was_with_its_key_and_headers() -> None:
    BAD.clear()
    BAD.add(0)
    of = Partition()
    records = [
        Record("in", 0, 0, b"k", b"x", (("sequitur-reason", b"of its own"),)),
        Record("in", 0, 1, b"k", b"nowhere"),
        damaged(Record("in", 0, 2, b"k", b"y"), "it is too large"),
        Record("in", 0, 3, b"other", b"z"),
    ]
    unit = of.task.process(records, 7)
    of.commit(unit)
    assert "stream =k is parked at in/0/0" in unit.reports[0]
    first, behind = (parked_message(row) for _, row in of.table.scan(b"b", b"c"))
    assert "it is bad" in first[1]
    assert (first[2], behind[1]) == (7, "")
    assert [each[1] for each in of.sent] == [b"z"]
    assert [each[1] for each in of.malformed] == [b"y"]  # what cannot be read is never parked
    assert not of.parked.release("=unknown", None)
    assert of.task.release(("in", 0), 0) is None
    BAD.clear()
    of.parked.release("=k", None)
    of.commit(of.task.release(("in", 0), 9))
    assert of.sent[-1][:2] == (b"k", b"x")
    assert [name for name, _ in of.sent[-1][3]] == [
        "sequitur-reason", "sequitur-origin", "sequitur-rules", REDRIVEN,
    ]  # fmt: skip
    counts = decode_intake(of.intake)
    assert (counts.read, counts.malformed, counts.unknown, counts.parked) == (4, 1, 1, 0)


def test_the_driver_parks_as_workers_do_and_parking_without_orders_is_refused() -> None:
    BAD.clear()
    BAD.add(0)
    topology = Topology("t")
    topology.route("r", rules=RULES, reload=lambda load, before: RULES, parks=True)
    assert "rules 1 and later ones, what fails parks its stream" in str(topology.describe())
    driver = TopologyTestDriver(topology)
    for key in (b"a", b"a", b"b"):
        driver.pipe("in", b"{}", key=key)
    assert [each.key for each in driver.read("out")] == [b"b"]
    with pytest.raises(DeclarationError, match="together with reload"):
        Topology("u").route("r", rules=RULES, parks=True)


def test_what_is_too_large_to_be_parked_behind_another_says_so() -> None:
    BAD.clear()
    BAD.add(0)
    of = Partition()
    large = Record("in", 0, 1, b"k", b"x" * (MESSAGE_BYTES + 1))
    of.commit(of.task.process([Record("in", 0, 0, b"k", b"x"), large], 7))
    ((_, value, _, headers),) = of.malformed
    assert value is None
    assert b"the limit is" in dict(headers)["sequitur-reason"]


def test_what_is_read_again_is_parked_once() -> None:
    """At least once, a crash may keep the rows and not how far it has read. It was counted twice,
    and a stream that was let go never ended."""
    BAD.clear()
    of = Partition()
    BAD.add(1)
    records = [Record("in", 0, n, b"a", b"%d" % n, (), n) for n in range(3)]
    of.commit(of.task.process(records, 0))
    of.crash()
    of.commit(of.task.process(records[1:], 0))
    assert of.parked.total == 2
    (_, row), _ = of.table.scan(b"b", b"c")
    assert "it is bad" in parked_message(row)[1]
    BAD.clear()
    of.parked.release("=a", None)
    of.release(iter(lambda: False, None))
    assert (of.parked.total, of.parked.releasing) == (0, {})
    assert [value for _, value, _, _ in of.sent] == [b"0", b"1", b"2"]


def test_nothing_is_let_go_for_ever() -> None:
    of = Partition()
    of.parked._counts["=a"] = 2
    assert of.parked.release("=a", None)
    assert of.task.release(("in", 0), 0) is None
    assert not of.parked.releasing


def test_a_message_whose_place_another_one_takes_is_not_lost() -> None:
    BAD.clear()
    of = Partition()
    BAD.add(1)
    of.commit(of.task.process([Record("in", 0, n, b"a", b"old %d" % n, (), n) for n in (1, 2)], 0))
    of.commit(of.task.process([Record("in", 0, 2, b"a", b"new 2", (), 9)], 0))
    assert of.parked.total == 2
    assert [value for _, value, _, _ in of.malformed] == [b"old 2"]
