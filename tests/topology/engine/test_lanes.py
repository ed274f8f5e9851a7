"""Lanes: a stream split by content in one view, each lane in order on its own."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.partition import INSPECTOR
from tests.topology.plain_model import Model
from topology import (
    DeclarationError,
    Emit,
    Event,
    Topology,
    TopologyTestDriver,
    Upsert,
    park,
    redeliver,
    retry,
    skip,
    spill,
)
from topology.declaration.lanes import joined_lane, split_lane
from topology.inspectors.stream_ids import StreamIds

ANY: Any = None
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)


def driver_of(lane: Any = "currency", handler: Any = None, **policies: Any) -> TopologyTestDriver:
    topology = Topology("bank")
    source = topology.source("moves", inspector=INSPECTOR)

    def board(event: Event, state: dict[str, Any]) -> Any:
        state["seen"] = [*state.get("seen", ()), event.sequence]
        yield Upsert(
            "balances",
            key={"account": event.stream, "currency": event.lane},
            values={"seen": str(state["seen"])},
        )
        yield Emit("seen", event.stream, event.sequence)

    topology.view("board", of=source, handler=handler or board, lane=lane, **policies)
    return TopologyTestDriver(topology)


def move(stream: str, sequence: int, currency: Any = "EUR") -> dict[str, Any]:
    return {"stream": stream, "sequence": sequence, "kind": "Moved", "currency": currency}


@given(
    sent=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from(["EUR", "USD"]), st.integers(1, 9)),
        max_size=40,
    ),
    restarts=st.sets(st.integers(0, 40)),
    size=st.sampled_from([1, 64]),
)
def test_each_lane_is_as_a_stream_of_its_own(
    sent: list[tuple[str, str, int]], restarts: set[int], size: int
) -> None:
    driver = driver_of(buffer=size, full=spill())
    models: dict[tuple[str, str], Model] = defaultdict(Model)
    for at, (stream, currency, sequence) in enumerate(sent):
        if at in restarts:
            driver.restart()
        driver.pipe("moves", move(stream, sequence, currency))
        models[stream, currency].arrive(sequence, 0)

    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for record, value in zip(
        driver._storage.topics["bank.board"], driver.read_json("bank.board"), strict=True
    ):
        stream, lane = split_lane(value["stream"])
        assert (value["lane"], record.key) == (lane, stream.encode())
        found[stream, lane].append(value["sequence"])
    for key, model in models.items():
        assert found[key] == model.handled
        assert driver.last("board", joined_lane(*key)) == model.last
        if model.handled:
            assert driver.state("board", joined_lane(*key)) == {"seen": model.handled}
    counts = driver.counts("board")
    assert counts.accounted == counts.received == len(sent)
    assert counts.duplicate == sum(model.duplicates for model in models.values())


def test_a_lane_that_no_store_has_room_for_shares_the_one_of_those_without() -> None:
    stream = "\U0001f6eb" * 512
    assert joined_lane(stream, "x" * 150).endswith("|" + "x" * 150)
    for long in ("x" * 160, "|" * 60):
        assert joined_lane(stream, long) == f"{stream}|"
    assert joined_lane("a", "ß" * 512) == "a|" + "ß" * 512


@given(stream=TEXTS, lane=TEXTS, other=TEXTS)
def test_a_joined_lane_is_unambiguous_and_can_be_split(stream: str, lane: str, other: str) -> None:
    joined = joined_lane(stream, lane)
    assert split_lane(joined) == (stream, lane)
    assert split_lane(joined_lane(stream, "")) == (stream, "")
    assert (joined == joined_lane(stream + other, lane)) is False
    assert joined_lane("a|b", "c") == StreamIds().joined(["a|b", "c"])


@pytest.mark.parametrize(
    ("currency", "lane"),
    [("EUR", "EUR"), (7, "7"), (True, "true"), (None, ""), ({}, ""), (1.5, ""), ("", "")],
)
def test_what_has_no_lane_that_can_be_read_shares_one(currency: Any, lane: str) -> None:
    driver = driver_of()
    driver.pipe("moves", move("a", 1, currency))
    assert list(driver.table("balances")) == [("a", lane)]


def test_a_lane_may_be_a_function_and_what_it_cannot_tell_shares_one() -> None:
    driver = driver_of(lane=lambda event: event.content["currency"].lower())
    driver.pipe("moves", move("a", 1, "EUR"))
    driver.pipe("moves", move("a", 1, None))
    assert driver.table("balances").keys() == {("a", "eur"), ("a", "")}


def test_messages_of_a_lane_go_where_the_stream_s_own_go_and_late_ones_bear_its_key() -> None:
    driver = driver_of(gap=skip(after=1))
    driver.pipe("moves", move("a", 2))
    driver.advance(1)
    driver.pipe("moves", move("a", 1))

    assert [record.key for record in driver.read("seen")] == [b"a"]
    assert [record.key for record in driver.read("bank.late")] == [b"a"]


async def coroutine(event: Event) -> list[Upsert]:
    return [Upsert("t", key={"stream": event.stream, "lane": event.lane}, values={})]


async def generator(event: Event) -> Any:
    yield Upsert("t", key={"stream": event.stream, "lane": event.lane}, values={})


@pytest.mark.parametrize("handler", [coroutine, generator])
def test_a_handler_that_is_awaited_sees_its_lane(handler: Any) -> None:
    driver = driver_of(handler=handler)
    driver.pipe("moves", move("a", 1, "EUR"))
    assert driver.table("t").keys() == {("a", "EUR")}


def test_without_lanes_an_event_has_none() -> None:
    seen: list[Any] = []
    topology = Topology("bank")
    source = topology.source("moves", inspector=INSPECTOR)
    topology.view("board", of=source, handler=lambda event: seen.append(event.lane))
    TopologyTestDriver(topology).pipe("moves", move("a", 1))
    assert seen == [None]


def test_a_lane_is_declared_and_described() -> None:
    assert "      lane 'currency'" in str(driver_of().topology.describe())
    with pytest.raises(DeclarationError, match=r"a field path such as 'order\.currency'"):
        driver_of(lane=7)


def test_an_event_of_a_lane_that_was_away_comes_back_to_its_lane() -> None:
    driver = driver_of(buffer=2, full=redeliver())
    for sequence in (2, 3, 4, 5):
        driver.pipe("moves", move("a|b", sequence, "EUR"))
    assert driver.counts("board").redelivering > 0
    driver.restart()
    driver.advance(5)
    driver.pipe("moves", move("a|b", 1, "EUR"))
    driver.advance(5)

    assert driver.state("board", joined_lane("a|b", "EUR")) == {"seen": [1, 2, 3, 4, 5]}
    assert driver.table("balances").keys() == {("a|b", "EUR")}


@pytest.mark.parametrize("policy", [park(), retry(times=1, backoff=1, then=park())])
def test_a_lane_that_fails_holds_back_no_other_lane(policy: Any) -> None:
    def handler(event: Event, state: dict[str, Any]) -> Any:
        state["seen"] = [*state.get("seen", ()), event.sequence]
        if event.lane == "EUR":
            raise ValueError("no euros")

    driver = driver_of(handler=handler, error=policy)
    for sequence in (1, 2):
        for currency in ("EUR", "USD"):
            driver.pipe("moves", move("a", sequence, currency))
    driver.advance(5)

    assert driver.state("board", "a|USD") == {"seen": [1, 2]}
    assert driver.state("board", "a|EUR") == {}
    counts = driver.counts("board")
    assert (counts.processed, counts.parked) == (2, 2)
    assert counts.accounted == counts.received == 4


def test_a_message_that_the_broker_refused_fails_its_event() -> None:
    driver = driver_of()
    sent = driver._runner.view("board").view.emitting
    sent.refused[joined_lane("a", "EUR"), 1] = "the broker refused it"
    driver.pipe("moves", move("a", 1))
    driver.pipe("moves", move("a", 1, "USD"))
    assert driver.counts("board").failed == 1
    assert [record.value for record in driver.read("seen")] == [b"1"]
    assert not sent.refused
