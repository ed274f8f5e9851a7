"""Everybody's throughput, under each guarantee that they have."""

from collections.abc import Iterator

from bench.bench import Bench, sample
from bench.job import GUARANTEES, Guarantee
from bench.peers.peer import Peer
from bench.peers.registry import PEERS
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario, in_turn
from bench.workload import Workload


def run(bench: Bench) -> Iterator[Sample]:
    """Each contestant in turn."""
    for peer in in_turn(bench.peers.values(), bench.turn):
        for guarantee in GUARANTEES:
            if guarantee in peer.guarantees:
                yield sample(peer.name, lambda p=peer, g=guarantee: measure(bench, p, g))  # type: ignore[misc]


def measure(bench: Bench, peer: Peer, guarantee: Guarantee) -> dict[str, float]:
    """One run over the workload, or as much of it as the peer's rate needs."""
    work = Workload(-(-bench.events // peer.fraction))
    with bench.run(guarantee) as run:
        run.read(bench.topic(work))
        topics = [run.job.group + topic for topic in peer.topics]
        bench.cluster.create(dict.fromkeys(topics, run.job.partitions))
        run.start(peer.command(), peer.name)
        timing = run.watch(work.events)
        run.stop()
        run.audit(work.ends)
    return {
        guarantee: timing.rate,
        f"{guarantee}_cpu": timing.cpu,
        f"{guarantee}_first": timing.first,
    }


SCENARIO = Scenario(
    "throughput",
    "Events a second, one worker process, one view, identity handler",
    "The input is there before a contestant starts. The rate is taken between the first and the"
    " last record that a reader of committed records can see, so that starting up does not count;"
    " afterwards the output is read and audited. CPU is that of the contestant's process alone.",
    (
        Column("at least once", "at_least_once"),
        Column("exactly once", "exactly_once"),
        Column("exactly once × Kafka Streams", "exactly_once", 2, base="kafka-streams"),
        Column("× the bare loop", "exactly_once", 2, base="limit"),
        Column("CPU s/million, at least once", "at_least_once_cpu", 1),
        Column("CPU s/million, exactly once", "exactly_once_cpu", 1),
    ),
    run,
    {name: peer.title() for name, peer in PEERS.items()},
)
