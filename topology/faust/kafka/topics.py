"""The topics that a topology needs: how many partitions each has, and for how long it keeps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from topology.declaration.topology import Topology
from topology.model.large import TOPIC_BYTES
from topology.model.topic_retention import retention


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it should be.

    given: whether somebody else fills it; then any number of partitions will do, and it is not made
    unless somebody says so. partitions: what it is made with. config: likewise; the broker's own
    where it says nothing. theirs: whether somebody else fills it, though a worker may make it.
    """

    name: str
    partitions: int
    given: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    theirs: bool = False

    @property
    def compacted(self) -> bool:
        """Whether it keeps the last record of each key."""
        return self.config.get("cleanup.policy") == "compact"


def own(name: str, partitions: int, *, compact: bool = False, keep_days: float = 0) -> Topic:
    """A topic that a worker fills. keep_days: -1 for ever, 0 as long as the broker says."""
    config = {
        "max.message.bytes": str(TOPIC_BYTES),
        "cleanup.policy": "compact" if compact else "delete",
    }
    if keep_days:
        config["retention.ms"] = retention(keep_days)
    return Topic(name, partitions, config=config)


def needed(
    topology: Topology, changelogs: Mapping[str, str], keep_days: float, source_days: float = 0
) -> Iterator[Topic]:
    """The topics that a worker makes.

    changelogs: view → topic. keep_days: of the side topics. source_days: of what others fill.
    """
    for source in topology.sources.values():
        days = source_days if source.keyed and not source.fed_by else 0
        topic = own(source.by_stream, source.partitions, keep_days=days)
        yield replace(topic, theirs=source.keyed)
    for view in topology.views.values():
        for name in (view.output, view.redeliver_topic, view.commands_topic):
            yield own(name, view.of.partitions)
        yield own(changelogs[view.name], view.of.partitions, compact=True)
    for stage in topology.stages:
        days = 0 if stage.arrivals else source_days
        yield own(stage.topic, stage.partitions, keep_days=days)
        yield own(changelogs[stage.name], stage.partitions, compact=True)
        if not stage.arrivals:
            yield own(stage.view.output, stage.partitions)
    for route in topology.routes.values():
        if route.reload is not None:
            # Its records have keys of their own, and stay; of heartbeats, the last one does.
            yield own(route.control, 2, compact=True)
        if route.trails:
            yield own(route.trails, route.partitions, keep_days=keep_days)
        for table in route.tables:
            yield own(changelogs[table.name], route.partitions, compact=True)
    for name in topology.side_topics:
        yield own(name, 1, keep_days=keep_days)
    config = {"message.timestamp.type": "LogAppendTime", "retention.ms": retention(1)}
    yield Topic(topology.clock_topic, 1, config=config)


def given(topology: Topology, partitions: int = 0, keep_days: float = 0) -> Iterator[Topic]:
    """The topics that messages come in, those of keyed sources apart, which a worker makes.

    partitions: as many as the views' input has unless given. keep_days: as in `own`.
    """
    seen: set[str] = set()
    for source in topology.sources.values():
        for name in () if source.keyed else source.topics:
            if name not in seen:
                seen.add(name)
                config = {"retention.ms": retention(keep_days)} if keep_days else {}
                yield Topic(name, partitions or source.partitions, given=True, config=config)
    for route in topology.routes.values():
        for name in route.topics:
            config = {"retention.ms": retention(keep_days)} if keep_days else {}
            yield Topic(name, partitions or route.partitions, given=True, config=config)
