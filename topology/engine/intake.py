"""What became of the messages of one input partition before any view saw them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

import orjson

ENOUGH = 100
"""Messages that say whether a source is understood."""
RECENT = 10_000
"""Messages of a partition, at most, by which its source is judged: the latest ones."""
LOUD = 0.5
"""The share of malformed messages beyond which something is wrong with the source's inspector."""


@dataclass(slots=True)
class IntakeCounts:
    """Counts of an input partition, durable with its committed offset.

    read: messages read. malformed, unknown: of them, those that became no event. The rest are
    events: each view of the source receives all of them, or the by-stream topic does. held: how
    often the partition waited for slower ones of its source. passed: how often it did not wait
    for one any longer; see `topology.engine.partition.alignment`. rules: the version of the rules
    that routed up to the offset, 0 where the processes do not agree on versions. parked: messages
    that are set aside with their streams, at the offset. time: the records' time that the partition
    has reached (ms), for workers that read other partitions of the source; 0 where nobody asks.
    recent, recent_malformed: the latest of the messages read, and the malformed ones of these; half
    of both is forgotten whenever there are more than RECENT.
    """

    read: int = 0
    malformed: int = 0
    unknown: int = 0
    held: int = 0
    passed: int = 0
    rules: int = 0
    parked: int = 0
    time: int = 0
    recent: int = field(default=0, compare=False)
    recent_malformed: int = field(default=0, compare=False)

    @property
    def events(self) -> int:
        """Messages that became events."""
        return self.read - self.malformed - self.unknown - self.parked

    @property
    def malformed_share(self) -> float:
        """The share of messages that were malformed, 0 to 1."""
        return self.malformed / self.read if self.read else 0.0

    @property
    def recent_share(self) -> float:
        """The same of the latest messages; of all, where whoever committed last noted none."""
        return self.recent_malformed / self.recent if self.recent else self.malformed_share

    def take(self, read: int, malformed: int, unknown: int) -> None:
        """Count some messages more."""
        self.read += read
        self.malformed += malformed
        self.unknown += unknown
        self.recent += read
        self.recent_malformed += malformed
        while self.recent > RECENT:
            self.recent //= 2
            self.recent_malformed //= 2

    @property
    def is_loud(self) -> bool:
        """Whether so many are malformed that nobody may overlook it."""
        return self.read >= ENOUGH and self.malformed_share > LOUD


def sum_of(parts: Iterable[IntakeCounts]) -> IntakeCounts:
    """The counts of several partitions together, but for what each has of its own."""
    found = IntakeCounts()
    for part in parts:
        for name in _SUMMED:
            setattr(found, name, getattr(found, name) + getattr(part, name))
    return found


class MalformedAlarm:
    """Says when it is to be told that most messages of a partition are malformed.

    After the first hundred, and again whenever as many have come since as before; anew when it has
    been well for a while. Kept in memory: a worker that starts tells it again.
    """

    def __init__(self) -> None:
        self._lately = IntakeCounts()
        self._enough = ENOUGH

    def note(self, read: int, malformed: int) -> IntakeCounts | None:
        """So many more were read. Returns what is to be told, the counts since the last time."""
        lately = self._lately
        lately.read += read
        lately.malformed += malformed
        if lately.read < self._enough:
            return None
        self._lately = IntakeCounts()
        self._enough = 2 * self._enough if lately.is_loud else ENOUGH
        return lately if lately.is_loud else None


def encode_intake(intake: IntakeCounts) -> str:
    """The counts as text, which a committed offset carries as its metadata."""
    return orjson.dumps(intake).decode()


def decode_intake(text: str | None) -> IntakeCounts:
    """The counts of a committed offset's metadata; zeros where it has none of ours."""
    try:
        found = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError:
        found = {}
    if not isinstance(found, dict):
        found = {}
    return IntakeCounts(**{name: n for name in _NAMES if type(n := found.get(name)) is int})


_NAMES = tuple(each.name for each in fields(IntakeCounts))
_SUMMED = tuple(name for name in _NAMES if name not in ("rules", "time"))
