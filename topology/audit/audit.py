"""An audit of a topology: records of all its topics in, a report out. Without I/O.

Feed it the rows of all changelogs first (`row`), then, once `begin` was called, the records of all
other topics (`feed`): those of each partition in order, partitions mixed as they come. It takes
least memory when the topics are read side by side.
"""

from collections.abc import Callable, Collection

from topology.audit.cut import Cut, Partition
from topology.audit.finding import Findings
from topology.audit.hop import Hop
from topology.audit.received import Received
from topology.audit.report import Report, SourceReport, ViewReport
from topology.audit.sides import Sides, header, report_of
from topology.audit.view_partition import ViewPartition
from topology.errors import Malformed
from topology.event import Message
from topology.origin import ORIGIN
from topology.sequences import contiguous
from topology.source import Source
from topology.topology import Topology
from topology.view import View

Feed = Callable[[Message], None]


class Audit:
    """partitions: input topic → how many partitions it has, of sources and by-stream topics."""

    def __init__(self, topology: Topology, cut: Cut, partitions: dict[str, int]) -> None:
        self.topology = topology
        self.cut = cut
        self.findings = Findings(once=cut.once, exact=cut.exact)
        self._hops: dict[Partition, Hop] = {}
        self._received: dict[Partition, Received] = {}
        self._views: dict[tuple[str, int], ViewPartition] = {}
        self._sides: dict[str, Sides] = {}
        self._feeds: dict[str, Feed] = {}
        for source in topology.sources.values():
            for topic in source.topics:
                for number in range(partitions.get(topic, 0)):
                    place = topic, number
                    self._hops[place] = Hop(source, place, cut, self.findings)
            for view in topology.views_of(source):
                self._sides[view.name] = Sides(
                    view.name, source.sequence, self.findings, laned=view.split is not None
                )
                for number in range(partitions.get(source.by_stream, 0)):
                    place = source.by_stream, number
                    made = ViewPartition(view, place, self.findings)
                    made.shortened = cut.first((view.output, number)) > 0
                    self._views[view.name, number] = made
        self._nobody = Sides("", contiguous(), Findings())
        self._partitions = partitions

    def row(self, view: str, record: Message) -> None:
        """A record of a view's changelog."""
        self._views[view, record.partition].rows.row(record)

    def begin(self) -> None:
        """All rows are there: where each view is, is known."""
        topology = self.topology
        for source in topology.sources.values():
            views = topology.views_of(source)
            for view in views:
                self._sides[view.name].put_back = {
                    at
                    for (name, _), part in self._views.items()
                    if name == view.name
                    for at in part.rows.redriven
                }
            for number in range(self._partitions.get(source.by_stream, 0)):
                place = source.by_stream, number
                parts = [self._views[view.name, number] for view in views]
                received = Received(source, place, self.cut, parts, self.findings)
                self._received[place] = received
            for topic in source.topics:
                self._feeds[topic] = self._keyed if source.keyed else self._message
            if not source.keyed:
                self._feeds[source.by_stream] = self._by_stream
            for view in views:
                self._feeds[view.output] = self._output(view)
                self._feeds[view.redeliver_topic] = self._redelivered(view)
        self._feeds[topology.malformed_topic] = self._aside
        self._feeds[topology.unknown_topic] = self._aside
        self._feeds[topology.late_topic] = lambda r: self._of(r).came_late(r)
        self._feeds[topology.dead_topic] = lambda r: self._of(r).died(r)
        self._feeds[topology.errors_topic] = lambda r: self._of(r).has_failed(report_of(r), r)
        self._feeds[topology.parked_topic] = lambda r: self._of(r).was_parked(report_of(r))
        self._feeds[topology.audit_topic] = lambda r: self._of(r).commanded(report_of(r))

    @property
    def topics(self) -> Collection[str]:
        """The topics whose records it takes."""
        return self._feeds.keys()

    def feed(self, record: Message) -> None:
        """A record of any other topic of the topology."""
        self._feeds[record.topic](record)

    def report(self) -> Report:
        """What came of it, everything having been fed."""
        shortened = {place for place, first in self.cut.firsts.items() if first > 0}
        for hop in self._hops.values():
            hop.check(shortened)
        for received in self._received.values():
            received.claim(self._sides)
        for received in self._received.values():
            received.check(self._sides)
        for sides in self._sides.values():
            sides.check()
        findings = self.findings
        return Report(
            self.topology.name,
            [self._source_report(source) for source in self.topology.sources.values()],
            [self._view_report(view) for view in self.topology.views.values()],
            findings.violations,
            findings.number,
            findings.remarks,
        )

    # -- feeds

    def _message(self, record: Message) -> None:
        hop = self._hops[record.topic, record.partition]
        if hop.message(record.offset) and hop.source.unknown == "pass":
            try:
                if hop.source.inspect(record) is None:
                    hop.unknown.add(record.offset)
            except Malformed:
                pass

    def _keyed(self, record: Message) -> None:
        place = record.topic, record.partition
        hop = self._hops[place]
        hop.message(record.offset)
        self._received[place].message(record, hop)

    def _by_stream(self, record: Message) -> None:
        found = _origin(record)
        hop = None if found is None else self._hops.get(found[0])
        if hop is not None and found is not None:
            hop.went(found[1], record, aside=False)
        self._received[record.topic, record.partition].message(record, hop)

    def _aside(self, record: Message) -> None:
        found = _origin(record)
        if found is not None and (hop := self._hops.get(found[0])) is not None:
            hop.went(found[1], record, aside=True)

    def _output(self, view: View) -> Feed:
        return lambda record: self._views[view.name, record.partition].output(record)

    def _redelivered(self, view: View) -> Feed:
        return lambda record: self._views[view.name, record.partition].redelivered(record)

    def _of(self, record: Message) -> Sides:
        return self._sides.get(header(record, "view")) or self._nobody

    # -- reports

    def _source_report(self, source: Source) -> SourceReport:
        report = SourceReport(source.name)
        for topic in source.topics:
            for number in range(self._partitions.get(topic, 0)):
                place = topic, number
                taken, position = self.cut.taken(place), self.cut.position(place)
                report.read += taken.read
                report.malformed += taken.malformed
                report.unknown += taken.unknown
                report.behind += max(0, self.cut.ends.get(place, position) - position)
        if not source.keyed:
            for number in range(self._partitions.get(source.by_stream, 0)):
                taken = self.cut.taken((source.by_stream, number))
                report.malformed += taken.malformed
                report.unknown += taken.unknown
        report.events = report.read - report.malformed - report.unknown
        return report

    def _view_report(self, view: View) -> ViewReport:
        report = ViewReport(view.name)
        for number in range(self._partitions.get(view.of.by_stream, 0)):
            part = self._views[view.name, number]
            tally, end = part.tally, self.cut.ends.get(part.place, part.end)
            report.counted += tally.counted
            report.found += tally.found
            report.streams += len(part.rows.streams)
            report.behind += max(0, end - part.end)
            report.halted = report.halted or part.rows.positions.halted
            report.silent += tally.silent
            report.repeats += part.outputs.repeats
            report.unsure |= tally.unsure
            report.hashes.update(part.outputs.chains)
        return report


def _origin(record: Message) -> tuple[Partition, int] | None:
    """The message that a record comes from, None where it does not say."""
    text = header(record, ORIGIN)
    if not text:
        return None
    topic, partition, offset, _ = text.split("/")
    return (topic, int(partition)), int(offset)
