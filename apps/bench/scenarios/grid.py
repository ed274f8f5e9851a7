"""How fast everybody is in disorder: few streams and many, little that is late and much."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bench import machine
from bench.bench import FULL, Bench, sample
from bench.peers.peer import Peer
from bench.peers.registry import FLINK, KAFKA_STREAMS, LIMIT, SEQUITUR
from bench.results import OF_A_TABLE, Result, Sample
from bench.scenarios.scenario import Column, Scenario, in_turn
from bench.workload import Workload

STREAMS = (5_000, 50_000, 200_000)
DISORDER = ((0.0, 0), (0.1, 8), (0.3, 40), (0.3, 500))
"""The share that is late, and its reach; see `Workload`."""
TWICE = 0.05
"""The share that comes twice, where something is late."""
FIRST = 100_000
"""Events that are there before all others, besides them: who has put them out is ready, and a JVM
has compiled most."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A peer in one of its set-ups. settings: of its environment. members: of its group, None where
    it has none. options: of its command. parts: programs that share the partitions."""

    title: str
    peer: Peer
    settings: dict[str, str] = field(default_factory=dict)
    members: int | None = 1
    options: tuple[str, ...] = ()
    parts: int = 1


CONTESTANTS = {
    "ours": Contestant("Sequitur", SEQUITUR),
    "ours2": Contestant("… `--processes 2`", SEQUITUR, members=2, options=("--processes", "2")),
    "limit": Contestant("the bare loop", LIMIT),
    "limit2": Contestant("two bare loops", LIMIT, members=None, parts=2),
    "streams": Contestant("Kafka Streams", KAFKA_STREAMS),
    "cached": Contestant(
        "… with caches, 500 ms", KAFKA_STREAMS, {"CACHE": str(64 << 20), "COMMIT": "500"}
    ),
    "streams2": Contestant(
        "… two threads, 500 ms", KAFKA_STREAMS, {"THREADS": "2", "COMMIT": "500"}, members=2
    ),
    "flink500": Contestant("Flink, 500 ms", FLINK, {"CHECKPOINT": "500"}, None),
    "flink100": Contestant("Flink, 100 ms", FLINK, {"CHECKPOINT": "100"}, None),
    "flink2": Contestant("… two slots, 500 ms", FLINK, {"CHECKPOINT": "500", "SLOTS": "2"}, None),
}
"""Name of their values → who it is."""
OTHERS = {
    "the bare loop": ("limit",),
    "Kafka Streams": ("streams", "cached"),
    "Flink": ("flink500", "flink100"),
}
"""Those with one thread or slot, beside one process."""
ON_TWO = {
    "one process": ("ours",),
    "two bare loops": ("limit2",),
    "Kafka Streams": ("streams", "cached", "streams2"),
    "Flink": ("flink500", "flink100", "flink2"),
}
"""Those in any set-up, beside two processes."""
CPU = ("ours", "ours2", "limit", "limit2", "streams", "streams2", "flink500", "flink2")
"""Whose CPU is shown."""


def cells(events: int) -> dict[str, Workload]:
    """Name → workload."""
    found = {}
    for streams in STREAMS:
        for late, reach in DISORDER:
            how = f"{late:.0%} late, reach {reach}" if late else "in order"
            work = Workload(events + first(events), streams, late, TWICE if late else 0.0, reach)
            found[f"{streams:,} streams, {how}"] = work
    return found


def first(events: int) -> int:
    """How many are there before so many."""
    return FIRST * events // FULL


def run(bench: Bench) -> Iterator[Sample]:
    """What an earlier run of the same events and the same Sequitur has measured is not again."""
    kept = _kept(bench.results.get(SCENARIO.name), bench.events)
    if not bench.turn:
        yield from kept
    done = Counter((taken.subject, name) for taken in kept for name in taken.values)
    for cell, work in cells(bench.events).items():
        for name, contestant in in_turn(CONTESTANTS.items(), bench.turn):
            if contestant.peer.name in bench.peers and done[cell, name] <= bench.turn:
                yield sample(cell, lambda n=name, c=contestant, w=work: measure(bench, n, c, w))  # type: ignore[misc]
        bench.forget()


def _kept(result: Result | None, events: int) -> list[Sample]:
    same = {"events": str(events)} | machine.facts()
    if result is None or any(result.facts[name] != same[name] for name in ("events", *OF_A_TABLE)):
        return []
    return [taken for taken in result.samples if not taken.problem]


def measure(bench: Bench, name: str, contestant: Contestant, work: Workload) -> dict[str, float]:
    """One run, exactly once."""
    peer, rest = contestant.peer, iter(work.messages)
    with bench.run("exactly_once") as run:
        bench.cluster.fill(run.job.input, islice(rest, first(bench.events)))
        for part in range(contestant.parts):
            shares = {"PART": str(part), "PARTS": str(contestant.parts)}
            command = [*peer.command(), *contestant.options]
            run.start(command, f"{peer.name}{part or ''}", **shares, **contestant.settings)
        with bench.cluster.held_back(run.job.input, rest):
            run.until(run.has_output, "no output")
            run.ready(contestant.members)
            before = run.look()
        timing = run.watch(work.events, before)
        run.stop()
        run.audit(work.ends)
    return {name: timing.rate, f"{name}_cpu": timing.cpu}


def worst(result: Result, others: Sequence[str], ours: str = "ours") -> float | None:
    """The least of all cells of ours by the best of others, None where none was measured."""
    ratios = (result.over(cell, ours, others) for cell in result.subjects())
    return min((ratio for ratio in ratios if ratio is not None), default=None)


SCENARIO = Scenario(
    "grid",
    "In disorder, exactly once: events a second, and CPU seconds per million events",
    "Each row is a workload: so many streams; the share that is late, by up to the time of a "
    "quarter of `reach` events of a stream; 5% come twice where something is late. What does not "
    f"fit into Sequitur's ring waits as rows (`spill()`). {FIRST:,} more events are there before a "
    "contestant starts, by which a JVM compiles most; when it has put them out and is quiet, the "
    "others come at once, in one transaction. × is by the best set-up of the other: beside one "
    "process, Kafka Streams with one thread, without caches, and with 64 MB of them and a commit "
    "every 500 ms in place of 100, and Flink with one slot and a checkpoint every 500 and every "
    "100 ms, before which nobody sees anything; beside two processes, those with two threads or "
    "slots too, and two bare loops that share the partitions. The broker runs on the same cores. "
    "CPU is that of the contestant.",
    (
        *(Column(each.title, name) for name, each in CONTESTANTS.items()),
        *(Column(f"× {title}", "ours", 2, over=names) for title, names in OTHERS.items()),
        *(
            Column(f"two processes × {title}", "ours2", 2, over=names)
            for title, names in ON_TWO.items()
        ),
        *(Column(f"CPU: {CONTESTANTS[name].title}", f"{name}_cpu", 1) for name in CPU),
    ),
    run,
)
