"""What an audit finds: violations with their position, and remarks that are none."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from topology.model.counted import counted
from topology.model.event import Message
from topology.model.printable import printable

KEPT = 1_000
"""Violations kept in full; of more there is only the number."""


class Place(NamedTuple):
    """Where a record lies."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition} offset {self.offset}"


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that is not as promised.

    what: in words. place: the record it is about; None where that is a record that is not there.
    view, stream, sequence: whose it is, as far as that can be said. input: the view's input
    partition (topic, number), in which the event can be looked for.
    """

    what: str
    place: Place | None = None
    view: str | None = None
    stream: str | None = None
    sequence: int | None = None
    input: tuple[str, int] | None = None

    def at(self, place: Place) -> "Violation":
        """The same with its position, once that is found."""
        return replace(self, place=place)

    def __str__(self) -> str:
        whose = [] if self.view is None else [f"view {self.view}"]
        if self.stream is not None:
            at = "" if self.sequence is None else f" sequence {self.sequence}"
            whose.append(f"stream {printable(self.stream)}{at}")
        if self.place is not None:
            whose.append(str(self.place))
        elif self.input is not None:
            whose.append(f"{self.input[0]}/{self.input[1]}")
        return f"{', '.join(whose)}: {self.what}" if whose else self.what


UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError)
"""What decoding a record of a topology's own topics can end in."""


@dataclass(slots=True)
class Unreadable:
    """Records of a topic that cannot be decoded: how many, and what the first one is."""

    number: int
    first: Message
    why: str

    def violation(self) -> Violation:
        """What there is to say of them."""
        said = printable((self.first.value or b"no value")[:80])
        records = counted(self.number, "record")
        return Violation(
            f"{records} of {self.first.topic} cannot be decoded; the first says {said}: {self.why}",
            place_of(self.first),
        )


@dataclass(slots=True)
class Findings:
    """The violations, as many as there are, and remarks. too_late: events that were handled in
    sequence, and were late in their own time. without_rows: error reports of rows that could not
    be made of events that were handled. without_messages: of those whose messages were left out.

    once: whether the workers write exactly once. exact: whether nothing moved while the ends were
    noted; else there may be more in the topics than the views' states tell of.
    """

    once: bool = True
    exact: bool = True
    unreadable: dict[str, Unreadable] = field(default_factory=dict)
    """Topic → what of it cannot be decoded."""
    violations: list[Violation] = field(default_factory=list)
    number: int = 0
    remarks: list[str] = field(default_factory=list)
    too_late: int = 0
    without_rows: int = 0
    without_messages: int = 0

    def violation(self, violation: Violation) -> None:
        self.number += 1
        if len(self.violations) < KEPT:
            self.violations.append(violation)

    def cannot_read(self, record: Message, error: Exception) -> None:
        """A record of the topology's own topics cannot be decoded."""
        found = self.unreadable.get(record.topic)
        if found is None:
            why = printable(f"{type(error).__name__}: {error}")
            self.unreadable[record.topic] = Unreadable(1, record, why)
        else:
            found.number += 1

    def remark(self, text: str) -> None:
        if text not in self.remarks and len(self.remarks) < KEPT:
            self.remarks.append(text)

    def count(self, violation: Violation, counted: int, found: int, *, gone: bool = False) -> bool:
        """Compare a count with the records that were found; whether they agree well enough.

        gone: whether records may be gone by retention.
        """
        if counted == found or (found > counted and not self.exact) or (gone and found < counted):
            return True
        if self.once:
            self.violation(violation)
        else:
            self.remark(f"{violation}: a crash at least once counts events again")
        return False


def place_of(record: Message) -> Place:
    """Where a record lies."""
    return Place(record.topic, record.partition, record.offset)
