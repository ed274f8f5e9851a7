"""Debezium change events, as the streams of a table's rows."""

from collections.abc import Callable, Sequence

from topology.inspectors.debezium_change import KINDS, Change, change_of, column, key_values
from topology.inspectors.debezium_position import position
from topology.inspectors.fields import Field, getter
from topology.inspectors.inspector import Found, Inspect, Normalised
from topology.inspectors.normalise import (
    SequenceType,
    checked_sequence_type,
    sequence_number,
    stream_id,
)
from topology.inspectors.stream_ids import StreamTypes, checked_stream_ids
from topology.model.errors import DeclarationError
from topology.model.event import Message
from topology.model.names import listed

_Number = Callable[[Change, Message], int]


class Debezium(Normalised):
    """Inspects Debezium's change events of rows, with or without their schema.

    The sequence is the position in the database's log (PostgreSQL: LSN; MySQL and MariaDB: binlog),
    which is monotonic but not contiguous, unless `version` or `sequence` is given. The kind is
    "create", "update", "delete", or "read" for a row of a snapshot. The content is the envelope:
    `before`, `after`, `source`, `op`. Tombstones, and messages about no row, are unknown.

    Args:
        stream: the columns that name the entity; the record's key unless given.
        version: a column that the application increments with each change of the row; contiguous.
        sequence: a field of the envelope such as `"source.ts_us"`, `key()` or `header("name")`.
        sequence_type: as in `Inspector`.
        stream_type: as in `Inspector`.

    Raises:
        DeclarationError: a value is wrong.
    """

    def __init__(
        self,
        stream: str | Sequence[str] | None = None,
        *,
        version: str | None = None,
        sequence: Field | None = None,
        sequence_type: SequenceType = "auto",
        stream_type: StreamTypes = "auto",
    ) -> None:
        names = listed(
            "Debezium(stream", () if stream is None else stream, "name columns of the row"
        )
        if stream is not None and not all(isinstance(n, str) and n for n in names or (None,)):
            raise DeclarationError(
                f"Debezium(stream={stream!r}): name columns of the row, "
                "or leave it out for the record's key"
            )
        if version is not None and (not isinstance(version, str) or not version):
            raise DeclarationError(f"Debezium(version={version!r}): name a column of the row")
        if version is not None and sequence is not None:
            raise DeclarationError(
                f"Debezium(version={version!r}, sequence={sequence!r}): give one of them"
            )
        self.stream, self.version, self.sequence = names, version, sequence
        checked_sequence_type("Debezium", sequence_type)
        # Versions and positions count.
        self.sequence_type = "number" if sequence is None else sequence_type
        self.stream_ids = checked_stream_ids("Debezium", stream_type, len(names))
        self._ordering()  # so that a field that is none is refused here
        if version is None and sequence is None:
            self.holes = (
                "positions in the database's log, which have holes; use sequence=monotonic(…), or "
                "Debezium(version=…) for a column that counts"
            )

    def compile(self) -> Inspect:
        """Return the inspector as one function of a message."""
        names, number = self.stream, self._ordering()
        joined, stream_type = self.stream_ids.joined, self.stream_ids.first

        def inspect(message: Message) -> Found | None:
            change = change_of(message)
            if change is None:
                return None
            if names:
                ids = [column(change, name, "stream") for name in names]
            else:
                ids = key_values(message.key)
            stream = stream_id(ids[0], stream_type) if len(ids) == 1 else joined(ids)
            return stream, number(change, message), KINDS[change["op"]], change

        return inspect

    def _ordering(self) -> _Number:
        version, sequence_type = self.version, self.sequence_type
        if version is not None:

            def of_version(change: Change, message: Message) -> int:
                number = sequence_number(column(change, version, "sequence"), "number")
                # A deleted row has the version of the change before: its deletion comes after.
                return sequence_number(number + 1) if change["op"] == "d" else number

            return of_version
        if self.sequence is not None:
            get = getter(self.sequence, "sequence")
            return lambda change, message: sequence_number(get(change, message), sequence_type)
        return lambda change, message: position(change["source"])

    def __repr__(self) -> str:
        stream = "+".join(self.stream) or "key"
        order = self.version or self.sequence or "position"
        return f"Debezium(stream={stream}, sequence={order})"
