"""The gap policy `ask`: what is missing is asked for, and skipped on the relay's word alone."""

from typing import Any

import pytest

from topology import (
    DeclarationError,
    Inspector,
    Topology,
    TopologyTestDriver,
    ask,
    contiguous,
    monotonic,
    park,
)
from topology.engine.resend_requests import RANGES


def tried(**more: Any) -> TopologyTestDriver:
    shop = Topology("shop")
    shop.source("orders", inspector=Inspector("id", "n"))

    @shop.view("board", of="orders", gap=ask("orders", after=5, every=60), **more)
    def board(event: Any, state: dict[str, Any]) -> None:
        state["seen"] = [*state.get("seen", []), event.sequence]

    return TopologyTestDriver(shop)


def send(driver: TopologyTestDriver, *sequences: int, stream: str = "a") -> None:
    for n in sequences:
        driver.pipe("orders", {"id": stream, "n": n})


def asked(driver: TopologyTestDriver) -> list[tuple[str, int, int]]:
    found = driver.read_json("orders.resend")
    return [(each["stream"], each["first"], each["last"]) for each in found]


def seen(driver: TopologyTestDriver) -> Any:
    return driver.state("board", "a").get("seen", [])


def test_what_is_missing_is_asked_for_again_and_again_and_waited_for() -> None:
    driver = tried()
    send(driver, 1, 4, 7)
    driver.advance(4)
    assert asked(driver) == []
    driver.advance(1)
    assert asked(driver) == [("a", 2, 3), ("a", 5, 6)]
    driver.advance(59)
    assert asked(driver) == []
    driver.advance(1)
    assert asked(driver) == [("a", 2, 3), ("a", 5, 6)]
    driver.advance(86_400)
    assert seen(driver) == [1]
    assert driver.counts("board").skipped == 0


def test_what_is_sent_again_goes_on_and_is_asked_for_no_more() -> None:
    driver = tried()
    send(driver, 1, 3)
    driver.advance(5)
    assert asked(driver) == [("a", 2, 2)]
    send(driver, 2)
    assert seen(driver) == [1, 2, 3]
    driver.advance(600)
    assert asked(driver) == []


def test_a_gap_that_is_filled_in_time_is_not_asked_for() -> None:
    driver = tried()
    send(driver, 1, 3)
    driver.advance(4)
    send(driver, 2)
    send(driver, 5)
    # The timer of the first gap is there still, and this gap is new.
    driver.advance(4)
    assert asked(driver) == []
    driver.advance(1)
    assert asked(driver) == [("a", 4, 4)]


def test_a_request_says_where_to_tell_of_what_is_void() -> None:
    driver = tried()
    send(driver, 2)
    driver.advance(5)
    (request,) = driver.read_json("orders.resend")
    assert request == {
        "stream": "a",
        "first": 1,
        "last": 1,
        "view": "board",
        "commands": "shop.board.commands",
        "partition": 0,
    }


def test_a_void_one_is_skipped_by_the_relay_s_command_which_is_on_record() -> None:
    driver = tried()
    send(driver, 1, 3)
    driver.advance(5)
    result = driver.command("skip", "board", "a", 2, who="relay orders, whose log says it is void")
    assert result.done
    assert seen(driver) == [1, 3]
    assert driver.counts("board").skipped == 1
    (record,) = driver.read_json("shop.audit")
    assert record["who"] == "relay orders, whose log says it is void"


def test_after_a_restart_it_is_asked_again() -> None:
    driver = tried()
    send(driver, 1, 3)
    driver.advance(5)
    assert asked(driver) == [("a", 2, 2)]
    driver.restart()
    driver.advance(1)
    assert asked(driver) == [("a", 2, 2)]


def test_no_more_is_asked_for_at_a_time_than_so_many_ranges() -> None:
    driver = tried(buffer=256)
    send(driver, *range(2, 2 + 4 * RANGES, 2))
    driver.advance(5)
    assert len(asked(driver)) == RANGES


def test_only_what_a_log_can_know_is_asked_for() -> None:
    shop = Topology("shop")
    shop.source("tens", inspector=Inspector("id", "n"), sequence=contiguous(10, 10))
    shop.source("times", inspector=Inspector("id", "n"), sequence=monotonic(settle=1))
    shop.source("orders", inspector=Inspector("id", "n"))
    with pytest.raises(DeclarationError, match="does not count 1, 2, 3"):
        shop.view("one", of="tens", gap=ask("tens"), handler=print)
    with pytest.raises(DeclarationError, match="monotonic"):
        shop.view("two", of="times", gap=ask("times"), handler=print)
    with pytest.raises(DeclarationError, match="lanes count for themselves"):
        shop.view("three", of="orders", gap=ask("orders"), lane="kind", handler=print)
    for wrong in ({"after": 0}, {"every": -1}):
        with pytest.raises(DeclarationError, match="seconds above 0"):
            ask("orders", **wrong)
    with pytest.raises(DeclarationError, match="name the topic"):
        ask("")


def test_the_description_says_so() -> None:
    assert tried().topology.describe().views[0].gap == "ask(source='orders', after=5, every=60)"


def test_what_is_missing_behind_an_event_that_was_unparked_is_asked_for() -> None:
    shop = Topology("shop")
    shop.source("orders", inspector=Inspector("id", "n"))
    down = [True]

    @shop.view("board", of="orders", gap=ask("orders", after=5, every=60), error=park())
    def board(event: Any) -> None:
        if down:
            raise ConnectionError("down")

    driver = TopologyTestDriver(shop)
    send(driver, 1, 3)
    driver.advance(60)
    assert asked(driver) == []
    down.clear()
    assert driver.command("unpark", "board", "a").done
    driver.advance(5)
    assert asked(driver) == [("a", 2, 2)]
