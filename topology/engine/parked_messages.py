"""What a stage that routes has set aside: a stream's message that failed, and all later ones."""

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice

from topology.engine.commit_unit import CommitUnit
from topology.engine.state.rows import (
    BUFFERS,
    buffer_key,
    buffer_range,
    decode_message,
    encode_message,
    split_buffer_key,
)
from topology.model.event import Message, Record
from topology.model.origin_headers import REASON
from topology.model.partition_table import PartitionTable

FEW = 500
"""Messages of a stream that one step lets go."""
_LONG = 200


def stream_of(message: Message) -> str:
    """What a message is parked with: the others of its key; without one, of its partition."""
    if message.key is None:
        return "-"
    text = message.key.decode("utf-8", "backslashreplace").replace("\0", "\\0")
    return f"={text}" if len(text) <= _LONG else f"#{sha256(message.key).hexdigest()}"


class ParkedMessages:
    """The parked messages of a partition: rows, which are durable with the unit that has them.

    Args:
        name: of the table.
        table: what is durable.

    Attributes:
        releasing: stream that is let go → the offset of the message to go on without, if any.
    """

    def __init__(self, name: str, table: PartitionTable) -> None:
        self.name, self.table = name, table
        self._counts = Counter(split_buffer_key(key)[0] for key, _ in table.scan(*BUFFERS))
        self.releasing: dict[str, int | None] = {}

    @property
    def total(self) -> int:
        """How many there are."""
        return self._counts.total()

    def has_stream_of(self, message: Message) -> bool:
        """Whether a message is to be parked behind others."""
        return bool(self._counts) and stream_of(message) in self._counts

    def add(
        self, message: Message, reason: str, unit: CommitUnit, *, again: bool = False
    ) -> Record | None:
        """Park a message, unless it is parked already, as one that is read again.

        Args:
            message: it.
            reason: why it failed; empty for one behind it.
            unit: that has its row.
            again: it is parked, and failed once more.

        Returns:
            A message that was at its place, and has none any more: the topic was made anew.
        """
        stream, why = stream_of(message), reason.encode("utf-8", "backslashreplace")[:4000]
        key, other = buffer_key(stream, message.offset), None
        if not again and (row := self.table.get(key)) is not None:
            other = parked_message(row)[0]
            if (other.timestamp, other.value) == (message.timestamp, message.value):
                return None
        kept = Record(
            message.topic, message.partition, message.offset, message.key, message.value,
            (*message.headers, (REASON, why)), message.timestamp,
        )  # fmt: skip
        unit.rows.setdefault(self.name, []).append((key, encode_message(kept, unit.now)))
        self._counts[stream] += not again and other is None
        return other

    def first(self, stream: str) -> Iterator[Record]:
        """The first messages that are parked of a stream, in order."""
        for _, row in islice(self.table.scan(*buffer_range(stream)), FEW):
            yield parked_message(row)[0]

    def forget(self, stream: str) -> None:
        """Nothing is parked of a stream, whatever was counted."""
        self._counts.pop(stream, None)
        self.releasing.pop(stream, None)

    def remove(self, message: Message, unit: CommitUnit) -> None:
        """A message is parked no longer."""
        stream = stream_of(message)
        unit.rows.setdefault(self.name, []).append((buffer_key(stream, message.offset), None))
        self._counts[stream] -= 1
        if not self._counts[stream]:
            del self._counts[stream]
            self.releasing.pop(stream, None)

    def release(self, stream: str, without: int | None) -> bool:
        """Let a stream go, if it is parked here; one that fails again is parked as it was.

        Args:
            stream: as `stream_of` names it.
            without: the offset of the message to go on without.
        """
        if parked := stream in self._counts:
            self.releasing[stream] = without
        return parked


def parked_message(row: bytes) -> tuple[Record, str, int]:
    """A row's message as it came, why it failed (empty: it is behind another), and when (ms)."""
    kept, at = decode_message(row)
    *headers, (_, why) = kept.headers
    message = Record(
        kept.topic, kept.partition, kept.offset, kept.key, kept.value, tuple(headers),
        kept.timestamp,
    )  # fmt: skip
    return message, (why or b"").decode("utf-8", "replace"), at
