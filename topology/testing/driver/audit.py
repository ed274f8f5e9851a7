"""The audit of what a test driver has kept: one partition of everything, and nothing in flight."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from topology.diagnostics.audit import Audit, AuditReport, AuditSnapshot, ContentsCheck
from topology.diagnostics.explain import route_totals
from topology.engine.intake import IntakeCounts
from topology.engine.route_task import RouteTask
from topology.engine.state.positions import decode_positions, encode_positions
from topology.engine.state.rows import POSITIONS
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.model.event import Record
from topology.testing.driver.storage import DriverStorage
from topology.testing.in_a_thread import in_a_thread

EVERYTHING = (b"", b"\xff")


def audit(
    kept: DriverStorage,
    tasks: Mapping[str, StreamTask],
    rekeyed: Mapping[str, RekeyTask],
    missed: Mapping[str, Sequence[Record]],
    routed: Mapping[str, RouteTask],
    *,
    contents: bool = False,
) -> AuditReport:
    """tasks: source → its task. rekeyed: source topic → its task. missed: of halted views. routed:
    topic → its task. contents: whether to run handlers again, and compare what they say."""
    made = audit_of(kept, committed(kept, tasks, rekeyed), missed)
    report = contents_of(made, kept) if contents else made.report()
    report.routes = [
        route_totals(route.name, [routed[topic].intake for topic in route.topics], 0)
        for route in kept.topology.routes.values()
    ]
    return report


def contents_of(made: Audit, kept: DriverStorage) -> AuditReport:
    """What comes of an audit that was fed, when the contents were compared too."""
    found = ContentsCheck(made)

    async def feed() -> None:
        for topic in found.topics:
            if records := kept.topics.get(topic):
                await found.feed(records)

    in_a_thread(feed())
    for topic in found.sent_to:
        if records := kept.topics.get(topic):
            found.sent(records)
    found.finish()
    return made.report(contents=True)


def committed(
    kept: DriverStorage, tasks: Mapping[str, StreamTask], rekeyed: Mapping[str, RekeyTask]
) -> dict[tuple[str, int], tuple[int, IntakeCounts]]:
    """What a group would have committed."""
    found = {
        (task.source.by_stream, 0): (task.position, replace(task.intake)) for task in tasks.values()
    }
    for topic, task in rekeyed.items():
        found[topic, 0] = len(kept.topics[topic]), replace(task.intake)
    return found


def audit_of(
    kept: DriverStorage,
    committed: Mapping[tuple[str, int], tuple[int, IntakeCounts]],
    missed: Mapping[str, Sequence[Record]],
    views: Collection[str] = (),
    firsts: Mapping[tuple[str, int], int] = MappingProxyType({}),
    *,
    once: bool = True,
) -> Audit:
    """An audit that was fed with all that was kept. views: those to audit, all if none. firsts: of
    partitions that are shortened. once: whether offsets were committed with the states."""
    topology = kept.topology
    ends = {(topic, 0): len(records) for topic, records in kept.topics.items()}
    inputs = {topic for source in topology.sources.values() for topic in source.topics}
    inputs |= {source.by_stream for source in topology.sources.values()}
    snapshot = AuditSnapshot(committed, firsts, ends, once=once)
    made = Audit(topology, snapshot, dict.fromkeys(inputs, 1), views)
    for view in (each.name for each in made.views):
        store = kept.stores[view]
        for at, (key, row) in enumerate(store.scan(*EVERYTHING)):
            value: bytes | None = row
            if key == POSITIONS and missed.get(view):
                # A worker reads on from there; the driver has those records at hand.
                positions = replace(decode_positions(row), input=missed[view][0].offset)
                value = encode_positions(positions)
            made.row(view, Record(f"{topology.name}-{view}-changelog", 0, at, key, value))
    made.begin()
    for topic, records in kept.topics.items():
        if topic in made.topics and records:
            made.feed(records)
    return made
