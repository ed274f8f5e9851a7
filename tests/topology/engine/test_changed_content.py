"""A handler that changes `event.content` moves no event of another view, and turns the test red."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import (
    Event,
    Headers,
    Inspector,
    Topology,
    TopologyTestDriver,
    Upsert,
    linked,
)
from topology.testing import ChangedContent


def seen(event: Event, state: dict[str, Any]) -> None:
    state["seen"] = [*state.get("seen", []), event.sequence]


def pops(name: str) -> Callable[[Event], None]:
    def handler(event: Event) -> None:
        event.content.pop(name, None)

    return handler


def driver_of(
    first: Callable[..., Any], strict: bool = False, **options: Any
) -> TopologyTestDriver:
    topology = Topology("shop")
    sequence = options.pop("sequence", None)
    inspector = options.pop("inspector", Inspector(stream="id", sequence="n"))
    source = topology.source("orders", inspector=inspector, sequence=sequence)
    topology.view("first", of=source, handler=first)
    topology.view("board", of=source, handler=seen, **options)
    return TopologyTestDriver(topology, strict=strict)


@given(order=st.permutations(range(1, 6)), lanes=st.lists(st.sampled_from("LM"), min_size=5))
def test_a_handler_that_pops_a_field_moves_no_other_view_s_lane(
    order: list[int], lanes: list[str]
) -> None:
    told = {"L": 0, "M": 0}
    numbered = [(lane, told.update({lane: told[lane] + 1}) or told[lane]) for lane in lanes[:5]]
    driver = driver_of(pops("lane"), lane="lane")
    for at in order:
        lane, number = numbered[at - 1]
        driver.pipe("orders", {"id": "a", "n": number, "lane": lane})
    for lane, count in told.items():
        if count:
            assert driver.state("board", f"a|{lane}")["seen"] == list(range(1, count + 1))
    assert driver.audit().sound


@given(order=st.permutations(range(1, 5)))
def test_a_handler_that_pops_a_field_moves_no_other_view_s_link(order: list[int]) -> None:
    driver = driver_of(pops("before"), sequence=linked("before"))
    for at in order:
        driver.pipe("orders", {"id": "a", "n": at * 10, "before": (at - 1) * 10 or None})
    assert driver.state("board", "a")["seen"] == [10, 20, 30, 40]
    assert driver.audit().sound


def test_a_link_in_a_lane_is_not_moved_either() -> None:
    driver = driver_of(pops("before"), sequence=linked("before"), lane="lane")
    for at in (1, 3, 4, 2):
        body = {"id": "a", "lane": "L", "n": at * 10, "before": (at - 1) * 10 or None}
        driver.pipe("orders", body)
    assert driver.state("board", "a")["seen"] == [10, 20, 30, 40]


async def awaited(event: Event) -> list[Upsert]:
    event.content["extra"] = 1
    return []


async def asynchronous(event: Event) -> AsyncIterator[Upsert]:
    yield Upsert("t", {"k": 1}, {})
    event.content["lines"].append(1)


def generated(event: Event) -> Any:
    yield Upsert("t", {"k": 1}, {})
    event.content["lines"][0]["price"] = 2


def failing(event: Event) -> None:
    del event.content["lines"]
    raise ValueError("after that")


@pytest.mark.parametrize("handler", [awaited, asynchronous, generated, failing, pops("lines")])
def test_a_handler_that_changes_what_other_views_see_turns_the_test_red(
    handler: Callable[..., Any],
) -> None:
    body = {"id": "a", "n": 1, "lines": [{"price": 1}]}
    driver = driver_of(handler, strict=True)
    with pytest.raises(ChangedContent, match=r"view 'first' changed event.content of stream 'a' s"):
        driver.pipe("orders", body)
    driver_of(handler).pipe("orders", body)


def test_a_lazy_body_that_is_changed_turns_the_test_red() -> None:
    def handler(event: Event) -> None:
        event.content.value["x"] = 2

    driver = driver_of(handler, True, inspector=Headers("id", "n", body="json"))
    with pytest.raises(ChangedContent):
        driver.pipe("orders", {"x": 1}, headers=[("id", b"a"), ("n", b"1")])


@pytest.mark.parametrize("body", ["bytes", "json"])
def test_a_handler_that_only_looks_is_not_accused(body: Any) -> None:
    def handler(event: Event) -> list[Upsert]:
        copy = {} if isinstance(event.content, bytes) else dict(event.content)
        copy["x"] = float("nan")
        return [Upsert("t", {"k": event.stream}, {})]

    driver = driver_of(handler, True, inspector=Headers("id", "n", body=body))
    driver.pipe("orders", {"x": 1}, headers=[("id", b"a"), ("n", b"1")])
    driver.pipe("orders", b"no JSON", headers=[("id", b"a"), ("n", b"2")])
    assert driver.counts("first").processed + driver.counts("first").failed == 2
