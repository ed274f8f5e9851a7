"""How fast everybody is in disorder: few streams and many, little that is late and much."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bench import machine
from bench.bench import Bench, sample
from bench.peers.peer import Peer
from bench.peers.registry import FLINK, KAFKA_STREAMS, LIMIT, SEQUITUR
from bench.results import Result, Sample
from bench.scenarios.scenario import Column, Scenario
from bench.workload import Workload

STREAMS = (5_000, 50_000, 200_000)
DISORDER = ((0.0, 0), (0.1, 8), (0.3, 40), (0.3, 500))
"""The share that is late, and its reach; see `Workload`."""
TWICE = 0.05
"""The share that comes twice, where something is late."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A peer in one of its set-ups. settings: of its environment."""

    title: str
    peer: Peer
    settings: dict[str, str] = field(default_factory=dict)


CONTESTANTS = {
    "ours": Contestant("Sequitur", SEQUITUR),
    "limit": Contestant("the limit", LIMIT),
    "streams": Contestant("Kafka Streams", KAFKA_STREAMS),
    "cached": Contestant("… with caches", KAFKA_STREAMS, {"CACHE": str(64 << 20)}),
    "flink500": Contestant("Flink, 500 ms", FLINK, {"CHECKPOINT": "500"}),
    "flink100": Contestant("Flink, 100 ms", FLINK, {"CHECKPOINT": "100"}),
}
"""Name of their values → who it is."""
OTHERS = {
    "the limit": ("limit",),
    "Kafka Streams": ("streams", "cached"),
    "Flink": ("flink500", "flink100"),
}


def cells(events: int) -> dict[str, Workload]:
    """Name → workload."""
    found = {}
    for streams in STREAMS:
        for late, reach in DISORDER:
            how = f"{late:.0%} late, reach {reach}" if late else "in order"
            work = Workload(events, streams, late, TWICE if late else 0.0, reach)
            found[f"{streams:,} streams, {how}"] = work
    return found


def run(bench: Bench) -> Iterator[Sample]:
    """What an earlier run of the same events and the same Sequitur has measured is not again."""
    kept = _kept(bench.results.get(SCENARIO.name), bench.events)
    if not bench.turn:
        yield from kept
    done = Counter((taken.subject, name) for taken in kept for name in taken.values)
    for cell, work in cells(bench.events).items():
        for name, contestant in CONTESTANTS.items():
            if contestant.peer.name in bench.peers and done[cell, name] <= bench.turn:
                yield sample(cell, lambda n=name, c=contestant, w=work: measure(bench, n, c, w))  # type: ignore[misc]
        bench.forget()


def _kept(result: Result | None, events: int) -> list[Sample]:
    same = result is not None and result.facts["events"] == str(events)
    if result is None or not same or result.facts["Sequitur"] != machine.checkout():
        return []
    return [taken for taken in result.samples if not taken.problem]


def measure(bench: Bench, name: str, contestant: Contestant, work: Workload) -> dict[str, float]:
    """One run, exactly once."""
    peer = contestant.peer
    with bench.run("exactly_once") as run:
        run.read(bench.topic(work))
        run.start(peer.command(), peer.name, **contestant.settings)
        timing = run.watch(work.events)
        run.stop()
        run.audit(work.ends)
    return {name: timing.rate, f"{name}_cpu": timing.cpu}


def worst(result: Result, others: tuple[str, ...]) -> float | None:
    """The least of all cells of ours by the best of others, None where none was measured."""
    ratios = (result.over(cell, "ours", others) for cell in result.subjects())
    return min((ratio for ratio in ratios if ratio is not None), default=None)


SCENARIO = Scenario(
    "grid",
    "In disorder, exactly once: events a second, and CPU seconds per million events",
    "Each row is a workload: so many streams; the share that is late, by up to the time of a "
    "quarter of `reach` events of a stream; 5% come twice where something is late. What does not "
    "fit into Sequitur's ring waits as rows (`spill()`). × is by the better of the other's two "
    "set-ups: Kafka Streams' stores without caches and with 64 MB of them; Flink's checkpoints "
    "every 500 and every 100 ms, before which nobody sees anything. CPU is that of the "
    "contestant's process; a JVM's has its compiler in it, which counts for less the more events "
    "there are.",
    (
        *(Column(each.title, name) for name, each in CONTESTANTS.items()),
        *(Column(f"× {title}", "ours", 2, over=names) for title, names in OTHERS.items()),
        *(Column(f"CPU: {each.title}", f"{name}_cpu", 1) for name, each in CONTESTANTS.items()),
    ),
    run,
)  # fmt: skip
