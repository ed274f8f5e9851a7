"""What an input partition brought to the views: which sequences of which streams, and how often."""

from collections.abc import Mapping, Sequence

from topology.audit.cut import Cut, Partition
from topology.audit.finding import Findings, Place, Violation
from topology.audit.hop import Hop
from topology.audit.sequences import Sequences
from topology.audit.sides import Sides
from topology.audit.view_partition import ViewPartition
from topology.errors import Malformed
from topology.event import Message
from topology.origin import original
from topology.source import Source


class Group:
    """Views that are at the same position in the partition, and what came before it.

    events: that came, repeats included. streams: stream → the sequences that came, as numbers from
    0 on.
    """

    def __init__(self, position: int, views: Sequence[ViewPartition]) -> None:
        self.position = position
        self.views = views
        self.choosy = [view for view in views if view.view.accepts is not None]
        self.counting = any(view.counting for view in views)
        self.events = 0
        self.streams: dict[str, Sequences] = {}

    def add(self, stream: str, number: int, kind: str | None) -> None:
        """An event."""
        self.events += 1
        found = self.streams.get(stream)
        if found is None:
            found = self.streams[stream] = Sequences()
        if self.counting and found.add(number):
            for view in self.choosy:
                if kind not in (view.view.accepts or ()):
                    view.passed_by(stream, number)


class Received:
    """One input partition of the views of a source, read up to where they are."""

    def __init__(
        self, source: Source, place: Partition, cut: Cut, views: Sequence[ViewPartition],
        findings: Findings,
    ) -> None:  # fmt: skip
        self.source = source
        self.place = place
        self.findings = findings
        self.position = cut.position(place)
        self.first = cut.first(place)
        self.taken = cut.taken(place)
        self.read = self.events = 0
        by_position: dict[int, list[ViewPartition]] = {self.position: []}
        for view in views:
            by_position.setdefault(view.position(self.position, self.first), []).append(view)
        self.groups = [Group(position, at) for position, at in sorted(by_position.items())]

    def message(self, record: Message, hop: Hop | None) -> None:
        """A record of the partition. hop: of the message that it is or comes from, if known."""
        offset, source = record.offset, self.source
        if offset >= self.groups[-1].position:
            return
        ours = offset < self.position
        self.read += ours
        message = record if source.keyed else original(record)
        try:
            found = numbered(source, message)
        except Malformed:
            refused = True
        else:
            refused = found is None and source.unknown == "topic"
        if refused and ours and hop is not None:
            hop.refused.add(message.offset)
        if refused or found is None:
            return
        stream, number, kind = found
        self.events += ours
        for group in self.groups:
            if offset < group.position:
                group.add(stream, number, kind)

    def claim(self, sides: Mapping[str, Sides]) -> None:
        """Say which streams are of this partition."""
        for group in self.groups:
            for view in group.views:
                sides[view.view.name].claim(view.streams(group.streams))

    def check(self, sides: Mapping[str, Sides]) -> None:
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
                about = sides[view.view.name]
                view.check(group.streams, group.events, about, gone=self.first > 0)


def numbered(source: Source, message: Message) -> tuple[str, int, str | None] | None:
    """(stream, number from 0 on, kind) of an event, None if it is unknown. Raises Malformed."""
    found = source.inspect(message)
    if found is None:
        return None
    stream, sequence, kind, _ = found
    number, beside = divmod(sequence - source.sequence.start, source.sequence.step)
    if beside or number < 0:
        raise Malformed(f"the sequence {sequence} is none of the source's")
    return stream, number, kind


def event_of(source: Source, record: Message) -> tuple[str, int] | None:
    """(stream, sequence) of a record of the views' input, None if it is no event."""
    try:
        found = numbered(source, record if source.keyed else original(record))
    except Malformed:
        return None
    if found is None:
        return None
    return found[0], source.sequence.start + found[1] * source.sequence.step
