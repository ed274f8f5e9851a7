"""From a source's messages to events: each is re-keyed, malformed or unknown, and that once."""

from collections.abc import Iterable

from topology.declaration.source import Source
from topology.diagnostics.audit.finding import Findings, Place, Violation
from topology.diagnostics.audit.sequences import Sequences
from topology.diagnostics.audit.snapshot import AuditSnapshot, Partition
from topology.model.event import Message

INFINITE = 2**63


class RepartitionCheck:
    """One partition of a source topic, with what became of its messages, by their offsets.

    there: in the topic and read. rekeyed: in the by-stream topic. aside: in the malformed and
    unknown topics. refused: that the views' workers could make no event of, and noted. ahead:
    such that these may have taken, their offset not being committed. unknown: that the inspector
    does not know, of those read.
    """

    def __init__(
        self, source: Source, place: Partition, snapshot: AuditSnapshot, findings: Findings
    ) -> None:
        self.source = source
        self.place = place
        self.findings = findings
        self.position = snapshot.position(place)
        self.taken = snapshot.taken(place)
        self.first = snapshot.first(place)
        # Only what is passed by leaves no record: it is looked for where the offset says there is.
        self.passes = source.unknown == "pass" and self.taken.unknown > 0
        self.there = Sequences()
        self.rekeyed = Sequences()
        self.aside = Sequences()
        self.refused = Sequences()
        self.ahead = Sequences()
        self.unknown = Sequences()
        self.passed = 0
        self._firsts: dict[Partition, int] = {}

    def messages(self, first: int, last: int, number: int) -> bool:
        """So many records of the topic, from one offset to another; whether that is all there is
        to say of them: they are read, and no offset is left out between them."""
        if last >= self.position or last - first + 1 != number:
            return False
        bounds = self.there.bounds
        if bounds and bounds[-1] == first:
            bounds[-1] = last + 1
            return True
        return False

    def message(self, offset: int) -> bool:
        """A record of the topic; whether it was read."""
        if offset >= self.position:
            return False
        self.there.add(offset)
        return True

    def went(self, offset: int, record: Message, *, aside: bool) -> None:
        """A record elsewhere that comes of the message at `offset`."""
        into = self.aside if aside else self.rekeyed
        self._firsts.setdefault((record.topic, record.partition), offset)
        if not into.add(offset):
            where = Place(record.topic, record.partition, record.offset)
            text = f"the message at {Place(*self.place, offset)} is twice in {record.topic}"
            if self.findings.once:
                self.findings.violation(Violation(text, where))
            else:
                self.findings.remark(f"{record.topic} repeats messages, at least once")

    def check(self, shortened: Iterable[Partition]) -> None:
        """Say what is wrong. shortened: the partitions whose first records retention has taken."""
        floor = self.first
        for partition in shortened:
            floor = max(floor, self._firsts.get(partition, INFINITE))
        findings, keyed = self.findings, self.source.keyed
        found = self.aside if keyed else self.rekeyed | self.aside
        if keyed:
            self._refused(self.aside, floor)
            placed = self.there
        else:
            self._lost(self.there - found, floor)
            self._refused(self.rekeyed & self.aside, floor)
            placed = found | self.there
        if findings.once and findings.exact:
            for first, _ in found - found.below(self.position):
                self._wrong(first, "it was taken to another topic, and its offset not committed")
                break
        if floor:
            findings.remark(f"{self.place[0]} or what was made of it is shortened by retention")
            return
        read = len(placed.below(self.position))
        findings.count(
            self._told(
                f"the group's offset says that {self.taken.read} were read, there are {read}"
            ),
            self.taken.read,
            read,
        )
        aside = len((self.aside - self.rekeyed).below(self.position))
        noted = self.taken.malformed
        noted += self.taken.unknown if self.source.unknown == "topic" else 0
        text = f"the group's offset says that {noted} were set aside, {aside} were"
        findings.count(self._told(text), noted, aside)

    def _lost(self, lost: Sequences, floor: int) -> None:
        lost -= Sequences([(0, min(floor, INFINITE))])
        allowed = self.taken.unknown if self.source.unknown == "pass" else 0
        number = len(lost)
        self.passed = min(number, allowed)
        if lost and number > allowed:
            known = lost - self.unknown or lost
            self._wrong(
                known.first,
                f"it has no place: {number} messages went nowhere, {allowed} of them unknown ones "
                "that were passed by",
            )
        elif number != allowed and not floor:
            self.findings.count(
                self._told(f"{allowed} were passed by as unknown, {number} are nowhere"),
                allowed,
                number,
            )

    def _refused(self, aside: Sequences, floor: int) -> None:
        gone = Sequences([(0, min(floor, INFINITE))])
        for first, _ in self.refused - aside - gone:
            self._wrong(first, "it is no event, and neither malformed nor unknown topic has it")
        if self.findings.exact:
            for first, _ in aside - self.refused - self.ahead - gone:
                self._wrong(first, "it is an event, and is in the malformed or unknown topic too")

    def _wrong(self, offset: int, text: str) -> None:
        self.findings.violation(Violation(text, Place(*self.place, offset)))

    def _told(self, text: str) -> Violation:
        return Violation(text, Place(*self.place, self.position))
