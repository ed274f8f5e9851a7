"""Messages whose headers say everything: the body is opaque, or JSON that is read when asked."""

from collections.abc import Sequence
from typing import Literal

from topology.inspectors.fields import Getter, RecordKey, getter, header
from topology.inspectors.inspector import Found, Inspect, Normalised, kind_text
from topology.inspectors.lazy import LazyJson
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

Body = Literal["bytes", "json"]


class Headers(Normalised):
    """Inspects headers alone.

    Args:
        stream: the header that names the entity; `key()` for the record's key; or several that are
            joined.
        sequence: the header that orders events, or `key()`.
        kind: the header that says what happened, or `key()`.
        body: `"bytes"` makes the message's value the content as it is, `"json"` decodes it when the
            handler asks for it.
        sequence_type: as in `Inspector`.
        stream_type: as in `Inspector`.

    Raises:
        DeclarationError: a value is wrong.
    """

    def __init__(
        self,
        stream: str | RecordKey | Sequence[str | RecordKey],
        sequence: str | RecordKey,
        kind: str | RecordKey | None = None,
        *,
        body: Body = "bytes",
        sequence_type: SequenceType = "auto",
        stream_type: StreamTypes = "auto",
    ) -> None:
        given = (stream,) if isinstance(stream, RecordKey) else stream
        names = listed("Headers(stream", given, "name a header, key(), or several of them")
        if not names:
            raise DeclarationError("Headers(stream=()): name at least one header")
        if body not in ("bytes", "json"):
            raise DeclarationError(f"Headers(body={body!r}): use 'bytes' or 'json'")
        self.stream, self.sequence, self.kind, self.body = names, sequence, kind, body
        self.sequence_type = checked_sequence_type("Headers", sequence_type)
        self.stream_ids = checked_stream_ids("Headers", stream_type, len(names))
        self._streams = tuple(_getter(name, "stream") for name in names)
        self._sequence = _getter(sequence, "sequence")
        self._kind = None if kind is None else _getter(kind, "kind")

    def compile(self) -> Inspect:
        """Return the inspector as one function of a message."""
        streams, first, single = self._streams, self._streams[0], len(self._streams) == 1
        get_sequence, sequence_type, get_kind = self._sequence, self.sequence_type, self._kind
        lazy = self.body == "json"
        joined, stream_type = self.stream_ids.joined, self.stream_ids.first

        def inspect(message: Message) -> Found:
            if single:
                stream = stream_id(first(None, message), stream_type)
            else:
                stream = joined(get(None, message) for get in streams)
            sequence = sequence_number(get_sequence(None, message), sequence_type)
            kind = None if get_kind is None else kind_text(get_kind(None, message))
            value = message.value
            return stream, sequence, kind, LazyJson(value) if lazy else value

        return inspect

    def __repr__(self) -> str:
        names = "+".join(map(_name, self.stream))
        kind = "" if self.kind is None else f", kind={_name(self.kind)}"
        return f"Headers(stream={names}, sequence={_name(self.sequence)}{kind}, body={self.body})"


def _getter(name: object, what: str) -> Getter:
    if isinstance(name, RecordKey):
        return getter(name, what)
    if not isinstance(name, str):
        raise DeclarationError(
            f"Headers({what}={name!r}): give a header's name as text, or key() for the record's key"
        )
    return getter(header(name), what)


def _name(name: str | RecordKey) -> str:
    return name if isinstance(name, str) else repr(name)
