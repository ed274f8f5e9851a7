"""What a test gives the driver that no broker and no operator could give is refused by name."""

from typing import Any

import pytest

from tests.topology.handled import driver_of, order
from tests.topology.partition import INSPECTOR
from topology import Emit, Event, Topology, TopologyTestDriver, park
from topology.model.large import MESSAGE_BYTES


def handler(event: Event) -> list[Emit]:
    return [Emit("log", "k", {})]


@pytest.mark.parametrize("timestamp", [1.5, "x", 2**63, -2, True, float("nan"), [1]])
def test_a_timestamp_that_kafka_does_not_take_is_refused_before_anything_is_written(
    timestamp: Any,
) -> None:
    driver = driver_of(handler)
    with pytest.raises(ValueError, match="timestamp="):
        driver.pipe("orders", order(1), timestamp=timestamp)
    driver.pipe("orders", order(1), timestamp=-1)
    assert driver.counts("board").processed == 1
    assert driver.audit().sound


@pytest.mark.parametrize("now", [1.5, "x", None, -1, True, float("inf"), 2**62])
def test_a_clock_that_is_no_time_is_refused(now: Any) -> None:
    driver = driver_of(handler)
    before = driver.now
    with pytest.raises(ValueError, match="now="):
        driver.now = now
    assert driver.now == before


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), "5", None, True, -1, 1e11])
def test_the_clock_advances_by_seconds_only(seconds: Any) -> None:
    driver = driver_of(handler)
    with pytest.raises(ValueError, match="seconds="):
        driver.advance(seconds)
    with pytest.raises(ValueError, match="older_than="):
        driver.redrive_dead("board", older_than=seconds)
    with pytest.raises(ValueError, match="seconds="), driver.slow(seconds):
        pass


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("key", 5), ("key", "\ud800"), ("headers", "x"), ("headers", [("a", "b")]),
        ("headers", [("a",)]), ("headers", {"a": b"b"}), ("headers", [("\ud800", b"")]),
    ],
)  # fmt: skip
def test_a_key_and_headers_that_kafka_does_not_take_are_refused(what: str, given: Any) -> None:
    driver = driver_of(handler)
    with pytest.raises(ValueError, match=f"{what}="):
        driver.pipe("orders", order(1), **{what: given})


def test_a_value_that_is_no_json_says_where_and_what_to_give() -> None:
    driver = driver_of(handler)
    with pytest.raises(ValueError, match=r"the message's value: lines\[0\] cannot be .*; give a l"):
        driver.pipe("orders", order(1, lines=[{1, 2}]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sequence", "2"), ("sequence", 2.0), ("sequence", True), ("sequence", 2**70),
        ("stream", "\ud800"), ("stream", 5), ("who", "\ud800"), ("who", None), ("force", 1),
        ("dry_run", "no"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["skip", "halt", "drop", "redrive"])
def test_a_bad_command_is_refused_by_name_and_the_next_good_one_is_carried_out(
    name: str, field: str, value: Any
) -> None:
    driver = driver_of(handler, error=park())
    driver.pipe("orders", order(2))
    given: dict[str, Any] = {"stream": "a", "sequence": 1} | {field: value}
    with pytest.raises(ValueError, match=f"{field}"):
        driver.command(name, "board", **given)
    assert driver.halted("board") is None
    assert driver.command("halt", "board", who="ann").done
    assert driver.command("resume", "board", who="ann").done
    assert driver.command("skip", "board", "a", 1, who="ann").done
    assert driver.last("board", "a") == 2
    assert driver.audit().sound


def test_what_is_no_topology_and_no_stream_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"TopologyTestDriver\(5\): give a Topology"):
        TopologyTestDriver(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="stream="):
        driver_of(handler).redrive_dead("board", "\ud800")


@pytest.mark.parametrize("keyed", [False, True])
def test_a_message_that_is_too_large_for_a_worker_is_malformed_here_too(keyed: bool) -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=keyed)
    topology.view("board", of=orders, handler=lambda event: None)
    driver = TopologyTestDriver(topology)
    body = {"stream": "a", "sequence": 1, "kind": "Paid", "more": "x" * MESSAGE_BYTES}
    driver.pipe("orders", body, key="a")
    driver.pipe("orders", {**body, "more": ""}, key="a")
    assert driver.counts("board").processed == 1
    (record,) = driver.read("shop.malformed")
    assert record.value is None
    assert b"the limit is" in dict(record.headers)["sequitur-reason"]
    assert driver.audit().sound
