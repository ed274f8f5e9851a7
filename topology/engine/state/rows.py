"""How a view's state is written as rows: the changelog topic and RocksDB hold exactly these.

| key | value |
|---|---|
| `p` + stream | progress and state, as JSON: `17`, or `{"last": 17, …}` with what else there is |
| `b` + stream + NUL + sequence (8 bytes, big-endian, offset by 2^63) | a waiting event's message |
| `d` + time (8 bytes, big-endian, ms) + stream | nothing: a closed stream, dropped then |
| `r` + stream + NUL + sequence, as in `b` | a late event's message: its stream is to be rebuilt |
| `m` + offset (8 bytes, big-endian) | events that wait in memory only, the first is there |
| `x` + offset (8 bytes, big-endian) | nothing: this event of the dead topic was put back |
| `c` | the view's counts in this partition, as JSON |
| `l` | how late events came, as JSON; see `lateness.py` |
| `k` + offset + time (8 bytes each, big-endian, ns) | an intent of a compensation, as JSON |
| `s` + stream + NUL + key | a cell of the stream's state; see `cells.py` |
| `e` + stream | of a view with workers: how often the stream was dropped |
| `g` + stream | of a view with workers: some of what is parked was let go, and more is to be |
| `u` | at least once: that a unit's cells are written, but maybe not all of its rows |
| `h` | of a view with workers: what is done, also ahead of what is not; see `encode_holes` |
| `w` | of a view with workers: how its ordering manager stands; see `work_status.py` |
| `o` | where the view reads and whether it is halted, as JSON; see `positions.py` |

Besides `last` a progress row has, where they are not as in most streams, `since`, `skipped`, `held`
(true), `rejected`, `retry` ({"attempts": …, "due": ms, "delay": ms}), `recent` (how far below
`last` each is), `closed` (when it is dropped, in ms), `epoch`, `rebuild`, `failed`, `sent`, `anew`,
`below`, `forgot` and `state`.

What a view with workers has parked is in `b` rows by the offset in its arrivals topic.
A stream that is merely in order costs one short row; nothing is kept of a processed event's body.
"""

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

import orjson

from topology.model.event import Record
from topology.ordered_commit import OffsetRanges
from topology.sequencer.progress import SKIPPED_KEPT, PendingRetry, Progress

COUNTS, HOLES, LATENESS, POSITIONS, WORK, TORN = b"c", b"h", b"l", b"o", b"w", b"u"
BUFFERS = (b"b", b"c")
"""The key range of all waiting events."""
EPOCHS = (b"e", b"f")
"""The key range of epochs of workers' streams."""
LATE = (b"r", b"s")
"""The key range of late events whose streams are to be rebuilt."""

REDRIVEN = (b"x", b"y")
"""The key range of dead events that were put back."""

NOTES = (b"m", b"n")
"""The key range of notes of events that wait in memory only."""

CELLS = (b"s", b"t")
"""The key range of all cells."""

INTENTS = (b"k", b"l")
"""The key range of intents of compensations."""

_BIAS = 2**63
_SEQUENCE = struct.Struct(">Q")


def progress_key(stream: str) -> bytes:
    """Return the key of a stream's progress."""
    return b"p" + stream.encode()


def buffer_key(stream: str, sequence: int) -> bytes:
    """Return the key of an event that waits."""
    return b"b" + stream.encode() + b"\0" + _SEQUENCE.pack(sequence + _BIAS)


def buffer_range(stream: str) -> tuple[bytes, bytes]:
    """The key range of the events of a stream that wait."""
    return b"b" + stream.encode() + b"\0", b"b" + stream.encode() + b"\1"


def cell_key(stream: str, key: str) -> bytes:
    """Return the key of a cell of a stream's state."""
    return b"s" + stream.encode() + b"\0" + key.encode()


def cell_range(stream: str) -> tuple[bytes, bytes]:
    """The key range of a stream's cells."""
    return b"s" + stream.encode() + b"\0", b"s" + stream.encode() + b"\1"


def split_cell_key(key: bytes) -> tuple[str, str]:
    """(stream, key) of a cell's key."""
    stream, _, own = key[1:].partition(b"\0")
    return stream.decode(), own.decode()


def late_key(stream: str, sequence: int) -> bytes:
    """Return the key of a late event whose stream is to be rebuilt."""
    return b"r" + buffer_key(stream, sequence)[1:]


def redriven_key(offset: int) -> bytes:
    """Return the key of a dead event that was put back."""
    return b"x" + _SEQUENCE.pack(offset)


def intent_key(offset: int, nanoseconds: int) -> bytes:
    """Return the key of a compensation's intent, of the event at an offset."""
    return b"k" + _SEQUENCE.pack(offset) + _SEQUENCE.pack(nanoseconds)


def intent_offset(key: bytes) -> int:
    """The offset of the event that an intent's key is of."""
    found: int = _SEQUENCE.unpack(key[1:9])[0]
    return found


def epoch_key(stream: str) -> bytes:
    """Return the key of how often the workers' stream was dropped."""
    return b"e" + stream.encode()


def going_key(stream: str) -> bytes:
    """Return the key of a parked stream of which some was let go, and more is to be."""
    return b"g" + stream.encode()


def note_key(offset: int) -> bytes:
    """Return the key of a note of waiting events, the first of which is at an input offset."""
    return b"m" + _SEQUENCE.pack(offset)


def split_redriven_key(key: bytes) -> int:
    """The offset in the dead topic of an event that was put back."""
    found: int = _SEQUENCE.unpack(key[1:])[0]
    return found


def split_buffer_key(key: bytes) -> tuple[str, int]:
    """(stream, sequence) of a waiting or late event's key."""
    return key[1:-9].decode(), _SEQUENCE.unpack(key[-8:])[0] - _BIAS


def encode_progress(progress: int | Progress, state: bytes | None) -> bytes:
    """The row of a stream; `state` is the stream's dictionary as JSON, None where it has none."""
    if state is None:
        if isinstance(progress, int):
            return b"%d" % progress
        ring = progress.ring
        if (
            ring is not None and ring.slots
            # Most that wait have no more to say than since when.
            and not (progress.skipped or progress.rejected or progress.held or progress.retry)
            and not (progress.recent or progress.closed is not None or progress.epoch)
            and not (progress.rebuild or progress.failed or progress.anew)
            and not progress.below and progress.forgot is None
        ):  # fmt: skip
            return b'{"last":%d,"since":%d}' % (progress.last, progress.since)
    row: dict[str, Any] = {"last": progress if isinstance(progress, int) else progress.last}
    if isinstance(progress, Progress):
        if progress.skipped:
            row["skipped"] = progress.skipped
        if progress.below:
            row["below"] = progress.below
        if progress.forgot is not None or len(progress.skipped) >= SKIPPED_KEPT:
            row["forgot"] = progress.forgot
        if progress.waiting:
            row["since"] = progress.since
            if progress.rejected:
                row["rejected"] = progress.rejected
        if progress.held:
            row["held"] = True
        if progress.retry is not None:
            row["retry"] = progress.retry._asdict()
        if progress.recent:
            row["recent"] = [progress.last - sequence for sequence in progress.recent]
        if progress.closed is not None:
            row["closed"] = progress.closed
        if progress.epoch:
            row["epoch"] = progress.epoch
        if progress.rebuild:
            row["rebuild"] = progress.rebuild
        if progress.failed:
            row["failed"] = progress.failed
            if progress.sent:
                row["sent"] = progress.sent
        if progress.anew:
            row["anew"] = progress.anew
    if state is not None:
        row["state"] = orjson.Fragment(state)
    return orjson.dumps(row)


def without_state(row: bytes) -> bytes:
    """A stream's row without its dictionary, which is the last of what a row has."""
    at = row.find(b',"state":')
    return row if at < 0 else row[:at] + b"}"


def decode_progress(row: bytes) -> tuple[int | Progress, bytes | None]:
    """(progress without its waiting events, the stream's dictionary as JSON or None)."""
    if row[:1] != b"{":
        return int(row), None
    found = orjson.loads(row)
    state = orjson.dumps(found["state"]) if "state" in found else None
    skipped = tuple((first, last) for first, last in found.get("skipped", ()))
    since, retry = found.get("since", 0), found.get("retry")
    progress = Progress(
        found["last"],
        since=since,
        skipped=skipped,
        held=found.get("held", False),
        rejected=found.get("rejected", 0),
        retry=(
            None
            if retry is None
            else PendingRetry(retry["attempts"], retry["due"], retry.get("delay", 0))
        ),
        recent=tuple(found["last"] - below for below in found.get("recent", ())),
        closed=found.get("closed"),
        epoch=found.get("epoch", 0),
        rebuild=tuple(found.get("rebuild", ())),
        failed=tuple(found.get("failed", ())),
        sent=tuple(found.get("sent", ())),
        anew=found.get("anew", 0),
        below=tuple((first, last) for first, last in found.get("below", ())),
        # Rows of before did not say so.
        forgot=found.get("forgot", skipped[0][0] - 1 if len(skipped) >= SKIPPED_KEPT else None),
    )
    return (progress if since else progress.plain()), state


def encode_holes(position: int, done: OffsetRanges) -> bytes:
    """The row of what is done: all before `position`, and these ranges beyond it."""
    return b"%d\n" % position + done.encode()


def decode_holes(row: bytes) -> tuple[int, OffsetRanges]:
    """(position, what is done beyond it). Raises ValueError."""
    position, _, ranges = row.partition(b"\n")
    return int(position), OffsetRanges.decode(ranges)


def encode_message(message: Any, arrived: int) -> bytes:
    """A waiting event's message: one line of JSON about it, then its value."""
    key = message.key
    about = [
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        arrived,
        None if key is None else key.decode("latin-1"),
        [
            (name, None if value is None else value.decode("latin-1"))
            for name, value in message.headers
        ],
        message.value is None,
    ]
    return orjson.dumps(about) + b"\n" + (message.value or b"")


def decode_message(row: bytes) -> tuple[Record, int]:
    """(message, when it arrived)."""
    line, _, value = row.partition(b"\n")
    topic, partition, offset, timestamp, arrived, key, headers, null = orjson.loads(line)
    record = Record(
        topic,
        partition,
        offset,
        None if key is None else key.encode("latin-1"),
        None if null else value,
        tuple((name, _header(text)) for name, text in headers),
        timestamp,
    )
    return record, arrived


class Note(NamedTuple):
    """An event that began to wait. offset, timestamp (ms), mark: of its record in the view's input.
    arrived: when it did (ms)."""

    offset: int
    timestamp: int
    mark: int
    stream: str
    sequence: int
    arrived: int


def mark_of(message: Any) -> int:
    """What a record is known again by, if it is read again: a checksum of all that is in it."""
    found = crc32(message.value or b"", crc32(message.key or b""))
    for _, value in message.headers:
        found = crc32(value or b"", found)
    return found


def encode_note(arrived: int, events: Sequence[tuple[int, int, int, str, int]]) -> bytes:
    """The row of events that began to wait together: each the fields of a Note, but `arrived`."""
    return orjson.dumps([arrived, events])


def decode_note(row: bytes) -> list[Note]:
    """The events of such a row."""
    arrived, events = orjson.loads(row)
    return [
        Note(offset, timestamp, mark, stream, sequence, arrived)
        for offset, timestamp, mark, stream, sequence in events
    ]


def _header(text: Any) -> Any:
    """Kafka lets a header's value be null."""
    return text if text is None else text.encode("latin-1")
