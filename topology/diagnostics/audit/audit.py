"""An audit of a topology: records of all its topics in, a report out. Without I/O.

Feed it the rows of all changelogs first (`row`), then, once `begin` was called, the records of all
other topics (`feed`): those of each partition in order, partitions mixed as they come. It takes
least memory when the topics are read side by side.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.diagnostics.audit.finding import UNREADABLE, Findings, Violation
from topology.diagnostics.audit.received import Received
from topology.diagnostics.audit.repartition_check import RepartitionCheck
from topology.diagnostics.audit.report import AuditReport
from topology.diagnostics.audit.side_topics import SideTopics, header, report_of
from topology.diagnostics.audit.snapshot import AuditSnapshot, Partition
from topology.diagnostics.audit.sums import source_report, view_report
from topology.diagnostics.audit.tally import BY_WORKERS
from topology.diagnostics.audit.view_partition import ViewPartition
from topology.engine.state.rows import WORK
from topology.engine.state.work_status import WorkStatus, decode_work_status
from topology.model.errors import Malformed
from topology.model.event import Message
from topology.model.origin_headers import ORIGIN, original

Feed = Callable[[Message], None]


class Audit:
    """partitions: input topic → how many partitions it has, of sources and by-stream topics.

    views: the names of those that are audited, with their sources; all of them if there are none.
    """

    def __init__(
        self,
        topology: Topology,
        snapshot: AuditSnapshot,
        partitions: dict[str, int],
        views: Collection[str] = (),
    ) -> None:
        self.topology = topology
        self.views = [v for v in topology.views.values() if not views or v.name in views]
        self.sources = [
            source
            for source in topology.sources.values()
            if not views or any(view.of is source for view in self.views)
        ]
        self.snapshot = snapshot
        self.findings = Findings(once=snapshot.once, exact=snapshot.exact)
        self._checks: dict[Partition, RepartitionCheck] = {}
        self._received: dict[Partition, Received] = {}
        self._views: dict[tuple[str, int], ViewPartition] = {}
        self._side_topics: dict[str, SideTopics] = {}
        self._feeds: dict[str, Feed] = {}
        for source in self.sources:
            for topic in source.topics:
                for number in range(partitions.get(topic, 0)):
                    place = topic, number
                    self._checks[place] = RepartitionCheck(source, place, snapshot, self.findings)
            for view in self._views_of(source):
                self._side_topics[view.name] = SideTopics(view, self.findings)
                for number in range(partitions.get(source.by_stream, 0)):
                    place = source.by_stream, number
                    made = ViewPartition(view, place, self.findings)
                    made.shortened = snapshot.first((view.output, number)) > 0
                    self._views[view.name, number] = made
        self._partitions = partitions
        self._checked = False
        self._work: dict[tuple[str, int], WorkStatus] = {}
        self.moving: set[str] = set()
        """Views whose workers were never at rest, so that their counts are of no moment."""

    def _views_of(self, source: Source) -> list[View]:
        return [view for view in self.views if view.of is source]

    def row(self, view: str, record: Message) -> None:
        """A record of a view's changelog."""
        try:
            self._views[view, record.partition].rows.row(record)
        except UNREADABLE as error:
            self.findings.cannot_read(record, error)

    def work_row(self, view: str, record: Message) -> None:
        """A record of the changelog of a view's second stage."""
        if record.key == WORK:
            try:
                self._work[view, record.partition] = decode_work_status(record.value)
            except UNREADABLE as error:
                self.findings.cannot_read(record, error)

    def begin(self) -> None:
        """All rows are there: where each view is, is known."""
        topology = self.topology
        for source in self.sources:
            views = self._views_of(source)
            for view in views:
                self._side_topics[view.name].put_back = {
                    at
                    for (name, _), part in self._views.items()
                    if name == view.name
                    for at in part.rows.redriven
                }
            for number in range(self._partitions.get(source.by_stream, 0)):
                place = source.by_stream, number
                parts = [self._views[view.name, number] for view in views]
                received = Received(source, place, self.snapshot, parts, self.findings)
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
        for topic, tell in (
            (topology.late_topic, SideTopics.came_late),
            (topology.dead_topic, SideTopics.died),
            (topology.errors_topic, SideTopics.has_failed),
            (topology.parked_topic, SideTopics.was_parked),
            (topology.audit_topic, SideTopics.commanded),
        ):
            self._feeds[topic] = self._side(tell)

    @property
    def topics(self) -> Collection[str]:
        """The topics whose records it takes."""
        return self._feeds.keys()

    def feed(self, records: Sequence[Message]) -> None:
        """Records of one partition of any other topic of the topology, in order."""
        first, last = records[0], records[-1]
        check = self._checks.get((first.topic, first.partition))
        if (
            check is not None
            and not (check.source.keyed or check.passes)
            and check.messages(first.offset, last.offset, len(records))
        ):
            return
        feed = self._feeds[first.topic]
        for record in records:
            try:
                feed(record)
            except UNREADABLE as error:
                self.findings.cannot_read(record, error)

    def partitions_of(self, view: View) -> Iterator[tuple[int, ViewPartition]]:
        """The numbers of a view's partitions, and what is known of it there."""
        for number in range(self._partitions.get(view.of.by_stream, 0)):
            yield number, self._views[view.name, number]

    def check(self) -> None:
        """Find what is wrong, everything having been fed."""
        if self._checked:
            return
        self._checked = True
        shortened = {place for place, first in self.snapshot.firsts.items() if first > 0}
        for check in self._checks.values():
            check.check(shortened)
        for received in self._received.values():
            received.claim(self._side_topics)
        for received in self._received.values():
            received.check(self._side_topics)
        for side_topics in self._side_topics.values():
            side_topics.check()
        for view in self.views:
            if view.work is not None:
                self._check_work(view)
        findings = self.findings
        for unreadable in findings.unreadable.values():
            findings.violation(unreadable.violation())

    def _check_work(self, view: View) -> None:
        """Compare what both stages of a view count with what is there."""
        if view.name in self.moving:
            self.findings.remark(
                f"view {view.name}: its workers commit all the time: what they count as failed and "
                "dead is not compared with what there is"
            )
            return
        parts = [part for _, part in self.partitions_of(view)]
        tallies = [part.tally for part in parts]
        work = [status for (name, _), status in self._work.items() if name == view.name]
        gone, ended, unseen = any(tally.gone for tally in tallies), 0, 0
        for place in BY_WORKERS:
            by_workers = sum(getattr(status, place) for status in work)
            ended += by_workers
            mine = by_workers + sum(getattr(tally.counted, place) for tally in tallies)
            there = sum(getattr(tally.found, place) for tally in tallies)
            what = f"it and its workers counted {mine} as {place}, there are {there}"
            self.findings.count(Violation(what, None, view.name), mine, there, gone=gone)
            # What has failed since the workers' rows: the first stage's may have it processed.
            unseen += 0 if self.findings.exact else max(0, there - mine)
        exact = self.findings.exact
        known = all(status.written is not None for status in work)
        if exact and known and not any(part.shortened for part in parts):
            mine = sum(status.written or 0 for status in work)
            mine += sum(tally.counted.written for tally in tallies)
            there = sum(tally.found.written for tally in tallies)
            what = f"it and its workers wrote {mine} outputs, there are {there}"
            self.findings.count(Violation(what, None, view.name), mine, there)
        handled = [tally.handled for tally in tallies if tally.handled is not None]
        if len(handled) == len(tallies):
            mine, least, most = map(sum, zip(*handled, strict=True))
            # Without a moment of rest, either stage may be ahead of the other.
            slack = 0 if exact else ended
            if not least - slack <= (mine := mine - ended) <= most + unseen:
                what = f"it counted {mine} as processed or passed by, {least} were"
                self.findings.count(Violation(what, None, view.name), mine, least, gone=gone)

    def report(self, *, contents: bool = False) -> AuditReport:
        """What came of it. contents: whether those were compared."""
        self.check()
        findings = self.findings
        return AuditReport(
            self.topology.name,
            [source_report(source, self.snapshot, self._partitions) for source in self.sources],
            [
                view_report(
                    view.name, [part for _, part in self.partitions_of(view)], self.snapshot
                )
                for view in self.views
            ],
            findings.violations,
            findings.number,
            findings.remarks,
            {topic: each.number for topic, each in findings.unreadable.items()},
            contents=contents,
            whole=len(self.views) == len(self.topology.views),
            too_late=findings.too_late,
            without_rows=findings.without_rows,
            without_messages=findings.without_messages,
        )

    # -- feeds

    def _message(self, record: Message) -> None:
        check = self._checks[record.topic, record.partition]
        if check.message(record.offset) and check.passes:
            try:
                if check.source.inspect(record) is None:
                    check.unknown.add(record.offset)
            except Malformed:
                pass

    def _keyed(self, record: Message) -> None:
        place = record.topic, record.partition
        check = self._checks[place]
        check.message(record.offset)
        self._received[place].message(record, record, check)

    def _by_stream(self, record: Message) -> None:
        message = original(record)
        check = None
        if message is not record:
            check = self._checks.get((message.topic, message.partition))
            if check is not None:
                check.went(message.offset, record, aside=False)
        self._received[record.topic, record.partition].message(record, message, check)

    def _aside(self, record: Message) -> None:
        found = _origin(record)
        if found is not None and (check := self._checks.get(found[0])) is not None:
            check.went(found[1], record, aside=True)

    def _output(self, view: View) -> Feed:
        return lambda record: self._views[view.name, record.partition].records.output(record)

    def _redelivered(self, view: View) -> Feed:
        return lambda record: self._views[view.name, record.partition].records.redelivered(record)

    def _side(self, tell: Callable[[SideTopics, Message], None]) -> Feed:
        side_topics, topology = self._side_topics, self.topology
        declared = {*topology.views, *(stage.view.name for stage in topology.stages)}

        def feed(record: Message) -> None:
            name = header(record, "view")
            if name in side_topics:
                tell(side_topics[name], record)
            elif not name:
                # What is sent again is of no view.
                if tell is not SideTopics.commanded or report_of(record)["view"]:
                    raise ValueError("it does not say of which view it is")
            elif name not in declared:
                self.findings.remark(f"{record.topic} has views that are not declared any more")

        return feed


def _origin(record: Message) -> tuple[Partition, int] | None:
    """The message that a record comes from, None where it does not say."""
    text = header(record, ORIGIN)
    if not text:
        return None
    topic, partition, offset, _ = text.split("/")
    return (topic, int(partition)), int(offset)
