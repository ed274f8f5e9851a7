"""Events that wait in memory only, as the view's input still has them: short waits write no rows.

Progress is one number per stream, so a part of the input can be read again: what is at or below
its stream's `last` was processed, and what is above it waits. That holds for views in which an
event leaves its buffer only as `last` passes it; see `may_wait_in_memory`. What waits longer gets
its row. The row of the counts says from where on the input is to be read again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from topology.declaration.view import View
from topology.engine.state.rows import (
    COUNTS,
    buffer_key,
    decode_progress,
    encode_message,
    progress_key,
)
from topology.model.errors import Malformed
from topology.model.event import Damaged, Event, Message
from topology.model.origin_headers import original
from topology.model.partition_table import Row
from topology.sequencer.progress import Progress

SAMPLE = 64
"""Of so many events that come one is measured."""


@dataclass(frozen=True, slots=True)
class WaitLimits:
    """How far the input is to be read again at most: twice this, as generations take turns.

    Attributes:
        records: that came.
        bytes: of their bodies, by a sample.
        time: since the first of them came (ms).
    """

    records: int = 50_000
    bytes: int = 32 << 20
    time: int = 5_000


class ReadAgain(NamedTuple):
    """The part of the input to read again: offsets `first` to before `end`. What waits of it had
    arrived by a time `by` (ms)."""

    first: int
    end: int
    by: int


class ShortWaits:
    """The events of a view that have no row yet, in two generations.

    limits: when a generation ends; what then still waits of the one before gets rows.
    """

    __slots__ = (
        "_bytes", "_first", "_limits", "_previous", "_previous_first", "_recent", "_records",
        "_turned", "at", "end_now",
    )  # fmt: skip

    def __init__(self, limits: WaitLimits) -> None:
        self._limits = limits
        self._recent: dict[tuple[str, int], Event] = {}
        self._previous: dict[tuple[str, int], Event] = {}
        self._first = self._previous_first = self._records = self._bytes = self._turned = 0
        self.at = 0
        """The input offset at which the batch in hand begins."""
        self.end_now = False
        """Whether the next unit is to write all that waits."""

    def __len__(self) -> int:
        return len(self._recent) + len(self._previous)

    def __contains__(self, at: tuple[str, int]) -> bool:
        return at in self._recent or at in self._previous

    @property
    def due(self) -> float:
        """When a generation ends without more records (ms), infinite where nothing waits."""
        return self._turned + self._limits.time if len(self) else float("inf")

    def arrived(self, events: list[Event]) -> None:
        """So much came; what of it waits would be read again."""
        self._records += len(events)
        if sample := events[::SAMPLE]:
            size = sum(len(event.message.value or b"") for event in sample)
            self._bytes += size * len(events) // len(sample)

    def add(self, at: tuple[str, int], event: Event, now: int) -> None:
        """An event of the batch in hand waits from now on."""
        if not self._recent:
            self._first = self.at
            if not self._previous:
                self._turned, self._records, self._bytes = now, 0, 0
        self._recent[at] = event

    def release(self, at: tuple[str, int]) -> bool:
        """An event waits no longer. Returns whether it was one of these."""
        if self._recent.pop(at, None) is not None:
            return True
        return self._previous.pop(at, None) is not None

    def rows(self, now: int, *, everything: bool) -> list[Row]:
        """The rows of what has waited for long, or of all that waits."""
        limits, found = self._limits, list[Row]()
        if everything or self.end_now:
            found = [*_rows(self._previous), *_rows(self._recent)]
            self._previous, self._recent, self.end_now = {}, {}, False
        elif (
            self._records >= limits.records
            or self._bytes >= limits.bytes
            or now >= self._turned + limits.time
        ):
            found = list(_rows(self._previous))
            self._previous, self._recent = self._recent, {}
            self._previous_first, self._turned = self._first, now
            self._records = self._bytes = 0
        return found

    def read_again(self, position: int, now: int) -> ReadAgain | None:
        """What has to be read again if the process ends now, None if nothing."""
        if self._previous:
            return ReadAgain(self._previous_first, position, now)
        return ReadAgain(self._first, position, now) if self._recent else None


def _rows(waits: Mapping[tuple[str, int], Event]) -> Iterator[Row]:
    for at, event in waits.items():
        yield buffer_key(*at), encode_message(event.message, event.arrived)


def may_wait_in_memory(view: View) -> bool:
    """Whether an event leaves a view's buffers only as its stream's `last` passes it."""
    order = view.ordering
    moves = order.full == "redeliver" or order.opens or order.closes or view.late.rebuilds
    return order.counts and not (moves or view.split is not None or view.work is not None)


def encode_again(counts: bytes, again: ReadAgain | None) -> bytes:
    """The row of the counts, with what is to be read again. counts: with its position."""
    return (
        counts if again is None else b'%s,"again":%d,"by":%d}' % (counts[:-1], again[0], again[2])
    )


def read_again(counts: bytes | None) -> ReadAgain | None:
    """What the row of a view's counts says is to be read again."""
    if counts is None or b'"again":' not in counts:
        return None
    row = orjson.loads(counts)
    return ReadAgain(row["again"], row["position"], row["by"])


def without_again(counts: bytes) -> bytes:
    """The row of the counts when all that waits has its row."""
    at = counts.find(b',"again":')
    return counts if at < 0 else counts[:at] + b"}"


class InputWaits:
    """Finds the events of a view that wait, and have no row, in the input that is read again.

    Args:
        view: The view.
        row: Key → the view's row, as its changelog has it.
        again: What is read again.

    Attributes:
        view: The view.
        again: What is read again.
        rows: The rows that these events would have.
    """

    def __init__(self, view: View, row: Callable[[bytes], bytes | None], again: ReadAgain) -> None:
        self.again = again
        self.rows: dict[bytes, bytes] = {}
        self.view = view
        self._source = view.of
        self._row = row

    def take(self, records: Iterable[Message]) -> None:
        """The next records of the input, in order."""
        first, end, by = self.again
        for record in records:
            if not first <= record.offset < end or record.__class__ is Damaged:
                continue
            message = record if self._source.keyed else original(record)
            try:
                found = self._source.inspect(message)
            except Malformed:
                continue
            if found is not None and self.waits(found[0], found[1]):
                key = buffer_key(found[0], found[1])
                if key not in self.rows and self._row(key) is None:
                    self.rows[key] = encode_message(message, by)

    def unit_rows(self) -> list[Row]:
        """What makes rows of all that waits."""
        counts = self._row(COUNTS)
        assert counts is not None
        return [*self.rows.items(), (COUNTS, without_again(counts))]

    def waits(self, stream: str, sequence: int) -> bool:
        """Whether an event of that sequence waits, if it came."""
        order = self._source.sequence
        row = self._row(progress_key(stream))
        if row is None or (sequence - order.start) % order.step:
            return False
        progress, _ = decode_progress(row)
        # Of a stream that waits it is noted since when.
        return isinstance(progress, Progress) and bool(progress.since) and sequence > progress.last
