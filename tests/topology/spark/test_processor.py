"""What Spark calls: gaps wait for the watermark, commands reach their stream, state goes away."""

from typing import Any

import orjson
import pytest

from tests.topology.spark.fake_spark import FakeSpark
from tests.topology.spark.shops import topology
from topology import TopologyTestDriver
from topology.engine.commands.command import Command, encode_command
from topology.model.event import Record
from topology.spark.inspecting import at_place, inspected, place_of
from topology.spark.processor import _commands
from topology.spark.reference import refer

NOW = 1_000_000_000_000
REFERENCE = refer(topology)


def order(offset: int, n: int, kind: str = "Paid", stream: str = "a") -> Record:
    body = orjson.dumps({"id": stream, "n": n, "kind": kind})
    return Record("shop.web", 0, offset, stream.encode(), body, (), NOW)


def command(name: str, view: str = "tries", partition: int = 0, **more: Any) -> Record:
    given: Any = {"stream": "a", "id": "1", **more}
    value = encode_command(Command(name, view, **given))
    return Record(f"shop.{view}.commands", partition, 0, b"a", value, (), NOW)


def answers(fake: FakeSpark) -> list[tuple[bool, str]]:
    told = [orjson.loads(sent.value or b"") for sent in fake.records["shop.audit"]]
    return [(each["done"], each["message"]) for each in told]


@pytest.fixture
def fake() -> FakeSpark:
    return FakeSpark(topology, REFERENCE)


def test_a_gap_that_is_due_waits_until_all_that_had_arrived_is_read(fake: FakeSpark) -> None:
    fake.batch([order(0, 1), order(1, 3)], NOW, watermark=None)
    due = NOW + 3_000
    fake.batch([], due, watermark=None)
    fake.batch([], due + 5_000, watermark=due - 1)
    assert len(fake.records["shop.tries"]) == 1
    # What is missing was there all the time, only unread: it is not late.
    fake.batch([order(2, 2)], due + 6_000, watermark=due + 5_000)
    found = [orjson.loads(sent.value or b"")["sequence"] for sent in fake.records["shop.tries"]]
    assert found == [1, 2, 3]
    assert "shop.late" not in fake.records or not [
        sent for sent in fake.records["shop.late"] if ("view", b"tries") in sent.headers
    ]


def test_a_gap_is_given_up_by_the_watermark_also_in_a_batch_that_brings_more(
    fake: FakeSpark,
) -> None:
    fake.batch([order(0, 1), order(1, 3)], NOW, watermark=None)
    fake.batch([order(2, 4)], NOW + 9_000, watermark=NOW + 8_000)
    found = [orjson.loads(sent.value or b"")["sequence"] for sent in fake.records["shop.tries"]]
    assert found == [1, 3, 4]
    assert fake.counts["tries"]["skipped"] == 1


@pytest.mark.parametrize("name", ["unpark", "redrive"])
def test_a_command_does_what_it_does_elsewhere(fake: FakeSpark, name: str) -> None:
    driver = TopologyTestDriver(topology, now=NOW)
    for n, kind in ((1, "Paid"), (2, "Boom"), (3, "Paid")):
        driver.pipe("shop.web", order(0, n, kind).value, key="a")
    driver.advance(60)
    fake.batch([order(0, 1), order(1, 2, "Boom"), order(2, 3)], NOW, watermark=None)
    while fake.due < float("inf"):
        fake.batch([], int(fake.due), watermark=int(fake.due))
    assert fake.counts["tries"]["parked"] == driver.counts("tries").parked == 2

    expected = driver.command(name, "tries", "a")
    fake.batch([command(name)], NOW + 60_000, watermark=None)
    assert answers(fake) == [(expected.done, expected.message)]
    assert expected.done
    driver.advance(60)
    while fake.due < float("inf"):
        fake.batch([], int(fake.due), watermark=int(fake.due))
    assert fake.counts["tries"].get("parked", 0) == driver.counts("tries").parked
    ours = [sent.value for sent in fake.records["shop.tries"]]
    assert ours == [record.value for record in driver.read("shop.tries")]


def test_commands_to_a_whole_view_are_refused_and_say_so(fake: FakeSpark) -> None:
    fake.batch([command("halt", stream=None), command("resume", stream=None)], NOW, None)
    found = answers(fake)
    assert [done for done, _ in found] == [False, False]
    assert all("runs on Spark" in message for _, message in found)


def test_a_command_that_goes_everywhere_is_carried_out_once(fake: FakeSpark) -> None:
    fake.batch([order(0, 1), order(1, 3)], NOW, watermark=None)
    copies = [command("skip", sequence=2, everywhere=True, partition=p) for p in range(4)]
    fake.batch(copies, NOW + 1, None)
    found = answers(fake)
    assert sorted(done for done, _ in found) == [False, False, False, True]
    assert all("has no stream" in message for done, message in found if not done)


def test_what_is_no_command_is_told_and_crashes_nothing(fake: FakeSpark) -> None:
    fake.batch([Record("shop.tries.commands", 0, 7, None, b"junk", (), NOW)], NOW, None)
    (report,) = [line for outcome in fake.outcomes for line in outcome.reports]
    assert "shop.tries.commands at 7" in report


def test_what_is_left_of_a_view_that_was_taken_out_holds_up_nothing(fake: FakeSpark) -> None:
    """A batch that was planned while the view was there is run again without it."""
    left = [command("skip", "gone"), Record("shop.old", 0, 7, None, b"{}", (), NOW)]
    fake.batch([order(0, 1), *left], NOW, None)
    assert len(fake.records["shop.tries"]) == 1
    assert sorted(line for outcome in fake.outcomes for line in outcome.reports) == [
        "shop.gone.commands: 1 record of a view or a source that was taken out",
        "shop.old: 1 record of a view or a source that was taken out",
    ]
    reports: list[str] = []
    known = command("skip", sequence=2)
    ((view, _),) = _commands(topology, [left[0], known], reports)
    assert (view, len(reports)) == ("tries", 1)


def test_counts_of_the_input_add_up(fake: FakeSpark) -> None:
    junk = Record("shop.web", 0, 9, None, b"junk", (), NOW)
    fake.batch([order(0, 1), junk, order(1, 2)], NOW, None)
    assert fake.counts["<orders"] == {"read": 3, "malformed": 1}
    for view in ("plain", "board", "tries", "lanes", "life"):
        assert fake.counts[view]["received"] == 2


def test_a_stream_has_one_place_whatever_its_id() -> None:
    source = topology.sources["orders"]
    for stream in ("a", "a\0b", "", "é|%"):
        assert at_place(place_of(source, stream)) == ("orders", stream)
    (row,) = [place for place, _ in inspected(topology, [order(0, 1)]) if place[0] != "\0"]
    assert row == place_of(source, "a")
