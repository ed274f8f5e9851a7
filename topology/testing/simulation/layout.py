"""What simulations of one topology share and none of them changes, worked out once."""

from topology.declaration.policies import Advance
from topology.declaration.source import Source
from topology.declaration.starts import First
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.testing.simulation.log_partition import TopicPartition


class Layout:
    """The partitions and topics of a topology.

    places: every input partition: its source, and whether it is by stream. views: source name →
    its views. changelogs: (view, partition) → its changelog's. sides: the topics that have one
    partition. own: the topics that only the engine writes to. leap: the most milliseconds that
    pass at once: enough for gaps to be due. longest: ms that a policy waits at most, None
    where that is not known.
    """

    def __init__(self, topology: Topology, partitions: int) -> None:
        self.topology = topology
        self.partitions = partitions
        numbers = range(partitions)
        self.views: dict[str, list[View]] = {
            source.name: topology.views_of(source) for source in topology.sources.values()
        }
        self.changelogs: dict[tuple[str, int], TopicPartition] = {
            (view, number): (f"{topology.name}-{view}-changelog", number)
            for view in topology.views
            for number in numbers
        }
        self.places: dict[TopicPartition, tuple[Source, bool]] = {}
        for source in topology.sources.values():
            for number in numbers:
                if not source.keyed:
                    self.places.update({(t, number): (source, False) for t in source.topics})
                self.places[source.by_stream, number] = (source, True)
        sides = topology.side_topics
        self.sides = frozenset(sides)
        by_stream = [source.by_stream for source in topology.sources.values() if not source.keyed]
        outputs = [view.output for view in topology.views.values()]
        changelogs = [topic for topic, _ in self.changelogs.values()]
        away = [view.redeliver_topic for view in topology.views.values()]
        away += [view.commands_topic for view in topology.views.values()]
        self.own = frozenset((*sides, *by_stream, *outputs, *away, *changelogs))
        views = list(topology.views.values())
        gaps = [view.gap.most for view in views if view.gap.skips]
        orders = [source.sequence for source in topology.sources.values()]
        gaps += [order.settle for order in orders if order.settles]
        self.leap = round(max(gaps, default=1) * 1500)
        self.longest = round(max(gaps) * 1000) if gaps and all(map(_only_gaps, views)) else None


def _only_gaps(view: View) -> bool:
    """Whether gaps and what settles are all that a view waits for."""
    others = view.closing is not None or view.full.beyond == "redeliver"
    return not others and isinstance(view.error, Advance) and isinstance(view.start, First)
