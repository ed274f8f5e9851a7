"""Views with workers, and plain topics: what can be declared, what is refused, what is shown."""

from typing import Any

import pytest

from topology import (
    DeclarationError,
    Emit,
    Event,
    Inspector,
    Topology,
    Upsert,
    key,
    park,
    rebuild_stream,
    retry,
)
from topology.declaration.source import Source
from topology.testing import TopologyTestDriver


def declared() -> tuple[Topology, Source]:
    topology = Topology("shop")
    return topology, topology.source(
        "in", inspector=Inspector(stream=key(), sequence="seq", kind="kind"), keyed=True
    )


async def charge(event: Event) -> list[Upsert]:
    return [Upsert("charges", key={"id": event.stream}, values={"key": event.idempotency_key})]


def plain(event: Event) -> list[Upsert]:
    return [Upsert("charges", key={"id": event.stream}, values={"seq": event.sequence})]


def summed(event: Event, state: dict[str, Any]) -> None:
    state["n"] = event.sequence


@pytest.mark.parametrize(
    ("handler", "options", "reason"),
    [
        (charge, {"commit": "arrival"}, "commit='arrival' without workers"),
        (charge, {"workers": 0}, "must be an int from 1 to 1000"),
        (charge, {"workers": True}, "must be an int from 1 to 1000"),
        (charge, {"workers": 4, "commit": "any"}, "order='any'"),
        (charge, {"workers": 4, "run_in": "threads"}, "make the handler a plain function"),
        (plain, {"workers": 4, "run_in": "tasks"}, "make the handler async"),
        (summed, {"workers": 4, "within_stream": "parallel"}, "a handler that takes a state"),
        (charge, {"workers": 4, "time_limit": -1}, "a number of seconds"),
        (charge, {"workers": 4, "touches": 7}, "must be a function of event"),
        (charge, {"workers": 4, "scope": "all"}, "use 'partition', 'topic' or 'global'"),
        (charge, {"workers": 4, "late": rebuild_stream()}, "a stream cannot be rebuilt"),
        (charge, {"workers": 4, "lane": "lane"}, "give the stream the lane's id"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    handler: Any, options: dict[str, Any], reason: str
) -> None:
    topology, source = declared()
    with pytest.raises(DeclarationError, match="view 'v'") as refused:
        topology.view("v", of=source, handler=handler, **options)
    assert reason in str(refused.value)


def test_one_view_of_a_topology_has_the_global_order_over_all_topics_of_its_source() -> None:
    topology = Topology("shop")
    source = topology.source(["a", "b"], inspector=Inspector(stream="id", sequence="n"))
    topology.view("v", of=source, handler=charge, workers=4, scope="global")
    assert [stage.partitions for stage in topology.stages] == [1]
    with pytest.raises(DeclarationError, match="Merge the topics in one source"):
        topology.view("w", of=source, handler=charge, workers=4, scope="global")
    with pytest.raises(DeclarationError, match="source 'a' merges 2 topics; use scope='global'"):
        topology.view("w", of=source, handler=charge, workers=4, scope="topic")
    topology.view("w", of=source, handler=charge, workers=4)


def test_a_topic_is_read_by_a_source_or_by_parallel_and_its_outputs_by_neither() -> None:
    topology, _ = declared()
    topology.parallel("copy", topic="other", workers=4, handler=charge)
    for topic in ("in", "shop.copy", "shop.malformed"):
        with pytest.raises(DeclarationError, match=f"'{topic}'"):
            topology.parallel("again", topic=topic, workers=4, handler=charge)
    for topic in ("other", "shop.copy"):
        with pytest.raises(DeclarationError, match=f"'{topic}'"):
            topology.source(topic, inspector=Inspector(stream=key(), sequence="seq"))


class Own:
    """An error policy of the user's, which may park."""

    def on_error(self, event: Event, error: BaseException) -> Any:
        return park()


def test_a_stream_whose_events_run_side_by_side_is_not_parked() -> None:
    topology, source = declared()
    for error in (park(), retry(3, 1, park()), Own()):
        with pytest.raises(DeclarationError, match="within_stream='parallel'"):
            topology.view(
                "v", of=source, workers=2, within_stream="parallel", error=error, handler=charge
            )


def test_a_plain_topic_parks_nothing_since_nobody_could_redrive_it() -> None:
    topology, _ = declared()
    for error in (park(), retry(3, 1, park()), Own()):
        with pytest.raises(DeclarationError, match="a plain topic has no commands"):
            topology.parallel("copy", topic="other", workers=4, handler=charge, error=error)


async def asynchronous(*arguments: Any) -> Any:
    """Has nothing to say."""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"run_in": ["tasks"]}, "run_in=.*use one of"),
        ({"run_in": ""}, "run_in=.*use one of"),
        ({"scope": 0}, "scope=0: use"),
        ({"compensations": ["refund"]}, "compensations=.*give name →"),
        ({"compensations": 0}, "compensations=.*give name →"),
        ({"compensations": {"refund": lambda amount: None}}, "compensations=.*idempotency_key"),
        ({"touches": lambda: None}, "touches=.*one event"),
        ({"touches": asynchronous}, "touches=.*it is async"),
        ({"start_order": lambda: 1}, "start_order=.*one open event"),
        ({"start_order": asynchronous}, "start_order=.*it is async"),
    ],
)
def test_what_can_never_be_called_is_refused(options: dict[str, Any], words: str) -> None:
    topology, source = declared()
    with pytest.raises(DeclarationError, match=words):
        topology.view("v", of=source, workers=4, handler=charge, **options)


def test_a_compensation_may_be_async() -> None:
    topology, source = declared()
    given = {"refund": asynchronous}
    topology.view("v", of=source, workers=4, handler=charge, compensations=given)


def test_a_view_with_workers_cannot_send_to_the_topic_of_its_arrivals() -> None:
    topology, source = declared()
    with pytest.raises(DeclarationError, match=r"the arrivals topic of view 'v'"):
        topology.view("v", of=source, workers=4, handler=charge, emits=["shop.v.arrivals"])


def test_describe_shows_both_stages() -> None:
    topology, source = declared()
    topology.view("v", of=source, workers=4, commit="arrival", handler=charge)
    topology.parallel("copy", topic="other", workers=8, handler=charge)
    text, diagram = str(topology.describe()), topology.describe().mermaid()
    assert "→ shop.v.arrivals: workers 4 in tasks, commit by arrival" in text
    assert "Parallel copy: charge of other (4 partitions)" in text
    assert '[/"shop.v.arrivals"/]' in diagram
    assert '[/"shop.copy"/]' in diagram


def test_the_test_driver_runs_it_as_an_ordinary_view_with_the_same_keys_over_attempts() -> None:
    topology, source = declared()
    seen: list[str] = []

    @topology.view("v", of=source, workers=4, commit="arrival")
    async def v(event: Event, state: dict[str, Any]) -> Any:
        assert not event.hurry.is_set()
        seen.append(event.idempotency_key)
        state["n"] = state.get("n", 0) + 1
        yield Upsert("board", key={"id": event.stream}, values=dict(state))
        yield Emit("out", event.stream, state["n"])

    driver = TopologyTestDriver(topology)
    for sequence in (2, 1):
        driver.pipe("in", {"seq": sequence, "kind": "k"}, key="a")
    assert driver.read_json("out") == [1, 2]
    assert driver.state("v", "a") == {"n": 2}
    assert len(set(seen)) == 2
    assert all(each.startswith("shop.v/in/") for each in seen)


def test_a_view_without_workers_says_what_it_lacks() -> None:
    topology, source = declared()
    reasons: list[str] = []

    @topology.view("v", of=source)
    def v(event: Event) -> None:
        try:
            event.hurry.is_set()
        except AttributeError as error:
            reasons.append(str(error))

    TopologyTestDriver(topology).pipe("in", {"seq": 1, "kind": "k"}, key="a")
    assert reasons == ["event.hurry: only views with workers have it; give workers=…"]
