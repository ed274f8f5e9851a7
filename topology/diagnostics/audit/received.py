"""What an input partition brought to the views: which sequences of which streams, and how often."""

from collections.abc import Mapping, Sequence

from topology.declaration.source import Source
from topology.declaration.view import View
from topology.diagnostics.audit.finding import Findings, Place, Violation
from topology.diagnostics.audit.repartition_check import RepartitionCheck
from topology.diagnostics.audit.sequence_log import SequenceLog
from topology.diagnostics.audit.side_topics import SideTopics
from topology.diagnostics.audit.snapshot import AuditSnapshot, Partition
from topology.diagnostics.audit.view_partition import ViewPartition
from topology.model.errors import Malformed
from topology.model.event import Event, Message
from topology.model.origin_headers import original


class ViewGroup:
    """Views that split streams alike, at the same position in the partition; what came before it.

    events: that came, repeats included. streams: stream → what came of it. ahead: stream → what
    came behind the position, which a view may have processed all the same where offsets are not
    committed with its state.
    """

    def __init__(self, position: int, views: Sequence[ViewPartition]) -> None:
        self.position = position
        self.views = views
        self.choosy = [view for view in views if view.view.accepts is not None]
        self.split = views[0].view.split if views else None
        self.linked = any(view.order.links for view in views)
        self.closers = {k for view in views for k in view.closers}
        self.plain = not (self.split or self.linked or self.choosy or self.closers)
        self.events = 0
        self.streams: dict[str, SequenceLog] = {}
        self.ahead: dict[str, SequenceLog] = {}

    def add_ahead(self, event: Event, number: int, previous: int | None) -> None:
        """An event behind the position."""
        stream = event.stream if self.split is None else self.split([event])[0].stream
        found = self.ahead.setdefault(stream, SequenceLog())
        if event.kind in self.closers:
            found.closes(number)
        found.add(number, previous, linked=self.linked)

    def add(self, event: Event, number: int, previous: int | None) -> None:
        """An event. previous: the number of its predecessor, in an order of links."""
        self.events += 1
        stream = event.stream if self.split is None else self.split([event])[0].stream
        found = self.streams.get(stream)
        if found is None:
            found = self.streams[stream] = SequenceLog()
        if self.plain:
            found.numbers.add(number)
            return
        if event.kind in self.closers:
            found.closes(number)
        if found.add(number, previous, linked=self.linked):
            for view in self.choosy:
                if event.kind not in (view.view.accepts or ()):
                    view.records.passed_by(stream, number)


class Received:
    """One input partition of the views of a source, read up to where they are."""

    def __init__(
        self, source: Source, place: Partition, snapshot: AuditSnapshot,
        views: Sequence[ViewPartition], findings: Findings,
    ) -> None:  # fmt: skip
        self.source = source
        self.place = place
        self.findings = findings
        self.once = snapshot.once
        self.position = snapshot.position(place)
        self.first = snapshot.first(place)
        self.taken = snapshot.taken(place)
        self.read = self.events = 0
        for view in views:
            view.rows.take_notes()
        self.link = source.sequence.link()
        # Each view with lanes is a group of its own.
        apart: dict[tuple[int, str], list[ViewPartition]] = {(self.position, ""): []}
        for view in views:
            own = view.view.name if view.view.split is not None else ""
            at = view.position(self.position, self.first), own
            apart.setdefault(at, []).append(view)
        self.groups = [ViewGroup(at[0], those) for at, those in sorted(apart.items())]

    def message(self, record: Message, message: Message, check: RepartitionCheck | None) -> None:
        """A record of the partition. message: that it is or comes from; hop: of that, if known."""
        offset, source = record.offset, self.source
        if self.once and offset >= self.groups[-1].position:
            return
        ours = offset < self.position
        self.read += ours
        try:
            found = numbered(source, message)
        except Malformed:
            refused = True
        else:
            refused = found is None and source.unknown == "topic"
        if refused and check is not None:
            (check.refused if ours else check.ahead).add(message.offset)
        if refused or found is None:
            return
        event, number = found
        self.events += ours
        previous: int | None = None
        if self.link is not None and (sequence := self.link(event)) is not None:
            previous = sequence - source.sequence.start
        for group in self.groups:
            if offset < group.position:
                group.add(event, number, previous)
            elif not self.once:
                group.add_ahead(event, number, previous)

    def claim(self, side_topics: Mapping[str, SideTopics]) -> None:
        """Say which streams are of this partition."""
        for group in self.groups:
            for view in group.views:
                side_topics[view.view.name].claim(view.streams(group.streams))

    def check(self, side_topics: Mapping[str, SideTopics]) -> None:
        """Say what is wrong in the views' states and outputs of this partition."""
        findings, taken = self.findings, self.taken
        if not self.first:
            where = Place(*self.place, self.position)
            for what, noted, there in (
                ("were read", taken.read, self.read),
                ("were events", taken.events, self.events),
            ):
                text = f"the group's offset says that {noted} {what}, there are {there}"
                findings.count(Violation(text, where), noted, there)
        for group in self.groups:
            for view in group.views:
                about = side_topics[view.view.name]
                gone = self.first > 0
                view.check(group.streams, group.ahead, group.events, about, gone=gone)


def numbered(source: Source, message: Message, arrived: int = 0) -> tuple[Event, int] | None:
    """(event, its number from 0 on), None if it is unknown. Raises Malformed."""
    found = source.inspect(message)
    if found is None:
        return None
    stream, sequence, kind, content = found
    number, beside = divmod(sequence - source.sequence.start, source.sequence.step)
    if beside or number < 0:
        raise Malformed(f"the sequence {sequence} is none of the source's")
    return Event(stream, sequence, kind, content, message, arrived), number


def event_of(source: Source, record: Message, view: View | None = None) -> tuple[str, int] | None:
    """(stream, sequence) of a record of the views' input, None if it is no event.

    view: whose lanes the stream is split into, if it has any.
    """
    try:
        found = numbered(source, record if source.keyed else original(record))
    except Malformed:
        return None
    if found is None:
        return None
    event = found[0]
    if view is not None and view.split is not None:
        (event,) = view.split([event])
    return event.stream, event.sequence
