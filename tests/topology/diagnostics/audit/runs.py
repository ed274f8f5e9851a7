"""Runs for audits: a topology of any policies, fed with disorder, by the test driver."""

from dataclasses import dataclass
from typing import Any

import orjson
from hypothesis import strategies as st

from tests.topology.partition import INSPECTOR
from topology import (
    Event,
    Message,
    Topology,
    TopologyTestDriver,
    Upsert,
    advance,
    contiguous,
    halt,
    late_topic,
    park,
    rebuild_stream,
    redeliver,
    retry,
    skip,
    spill,
    wait,
)

_COMPILED = INSPECTOR.compile()


def inspect(message: Message) -> Any:
    """What the JSON inspector finds; bodies that begin with a tilde are unknown."""
    return None if (message.value or b"").startswith(b"~") else _COMPILED(message)


def talking(event: Event) -> Any:
    """A handler that writes for each event, and fails where the body says so."""
    if event.content.get("fails"):
        raise ValueError("it is to fail")
    yield Upsert("rows", key={"id": event.stream}, values=dict(event.content))


def reticent(event: Event, state: dict[str, Any]) -> Any:
    """A handler that says nothing of every third event."""
    state["seen"] = state.get("seen", 0) + 1
    if state["seen"] % 3:
        yield from talking(event)


@dataclass(frozen=True)
class Step:
    """An arrival (a body, to one of two topics) or a time that passes, or a command."""

    topic: int = 0
    value: bytes | None = None
    seconds: float = 0.0
    command: tuple[Any, ...] = ()


_AWAY = redeliver(delay=0.5, limit=40)
_ERRORS = [advance(), park(), halt(), retry(2, backoff=1), retry(1, 1, park())]
STREAMS = "abc"
_EVENTS = st.builds(
    lambda topic, stream, sequence, kind, fails: Step(
        topic,
        orjson.dumps(
            {
                "stream": stream,
                "sequence": sequence,
                "kind": kind,
                **({"fails": 1} if fails else {}),
            }
        ),
    ),
    st.integers(0, 1),
    st.sampled_from(STREAMS),
    st.integers(0, 12),
    st.sampled_from(["A", "A", "B"]),
    st.sampled_from([False] * 7 + [True]),
)
_COMMANDS = st.one_of(
    st.tuples(st.sampled_from(["redrive", "unpark"]), st.sampled_from(STREAMS), st.none()),
    st.tuples(st.sampled_from(["halt", "resume"]), st.none(), st.none()),
    st.tuples(st.just("skip"), st.sampled_from(STREAMS), st.integers(1, 9)),
    st.tuples(st.just("drop"), st.sampled_from(STREAMS), st.none()),
)
_STEPS = st.one_of(
    _EVENTS, _EVENTS, _EVENTS, _EVENTS,
    st.sampled_from([Step(value=b"~"), Step(value=b"{"), Step(value=None), Step(1, b"[]")]),
    st.sampled_from([0.5, 3.0, 20.0]).map(lambda seconds: Step(seconds=seconds)),
)  # fmt: skip
ORDERLY = st.lists(_STEPS, max_size=60)
"""No commands."""
COMMANDED = st.lists(
    st.one_of(_STEPS, _STEPS, _STEPS, _COMMANDS.map(lambda c: Step(command=c))), max_size=60
)


@st.composite
def busy(draw: st.DrawFn) -> list[Step]:
    """Streams mostly in order, with events that come late, twice or never, and some garbage."""
    random = draw(st.randoms(use_true_random=False))
    arrivals: list[tuple[float, Step]] = []
    for at in range(draw(st.integers(8, 40))):
        topic, stream, number = random.randrange(2), STREAMS[at % 3], at // 3
        more = {"fails": 1} if random.random() < 0.1 else {}
        body = {"stream": stream, "sequence": number, "kind": random.choice("AAB"), **more}
        step = Step(topic, orjson.dumps(body))
        for _ in range(random.choice([0, 1, 1, 1, 1, 1, 1, 2])):
            late = random.choice([0, 0, 0, 2, 8, 14])
            arrivals.append((at + late + random.random(), step))
        if random.random() < 0.15:
            arrivals.append((at, Step(topic, random.choice([b"~", b"{", None]))))
        if random.random() < 0.15:
            arrivals.append((at + 0.5, Step(seconds=random.choice([1.0, 3.0, 9.0]))))
    return [step for _, step in sorted(arrivals, key=lambda arrival: arrival[0])]


@st.composite
def topologies(
    draw: st.DrawFn, *, talkative: bool = False, rebuilds: bool = False, crowded: bool = False
) -> Topology:
    """Two views, of any policies. talkative: all handlers write for each event. rebuilds: a late
    event may lead to a rebuild. crowded: rings are full soon, and events go away for a while.
    """
    topology = Topology("shop")
    keyed = draw(st.booleans())
    start, step = draw(st.sampled_from([(1, 1), (0, 1), (2, 2)]))
    source = topology.source(
        "orders" if keyed else ["orders", "more"],
        inspector=inspect,
        sequence=contiguous(start, step),
        keyed=keyed,
        unknown=draw(st.sampled_from(["pass", "topic"])),
        name="orders",
    )
    for name in ("one", "two"):
        policies: dict[str, Any] = {
            "gap": draw(st.sampled_from([wait(), skip(after=2), skip(after=8)])),
            "full": _AWAY if crowded else draw(st.sampled_from([spill(), halt(), _AWAY])),
            "error": draw(st.sampled_from(_ERRORS)),
            "late": draw(st.sampled_from([late_topic(), rebuild_stream(), rebuild_stream(3)]))
            if rebuilds
            else late_topic(),
        }
        handlers: list[Any] = [talking] if talkative else [talking, reticent]
        topology.view(
            name,
            of=source,
            handler=draw(st.sampled_from(handlers)),
            accepts=draw(st.sampled_from([None, None, {"A"}])),
            buffer=draw(st.sampled_from([1, 2] if crowded else [1, 2, 64])),
            **policies,
        )
    return topology


def run(topology: Topology, steps: list[Step]) -> TopologyTestDriver:
    """The driver, after the steps."""
    driver = TopologyTestDriver(topology)
    topics = next(iter(topology.sources.values())).topics
    for step in steps:
        if step.command:
            name, stream, sequence = step.command
            for view in topology.views:
                driver.command(name, view, stream, sequence, force=True)
        elif step.seconds:
            driver.advance(step.seconds)
        else:
            driver.pipe(topics[step.topic % len(topics)], step.value)
    return driver
