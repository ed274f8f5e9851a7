"""CloudEvents 1.0 over Kafka, in structured JSON mode or binary mode."""

import re
from collections.abc import Sequence
from typing import Any

from topology.inspectors.cloudevents_message import cloudevent, is_json
from topology.inspectors.fields import RecordKey
from topology.inspectors.inspector import Found, Inspect, Normalised, kind_text
from topology.inspectors.normalise import (
    SequenceType,
    checked_sequence_type,
    sequence_number,
    stream_id,
)
from topology.inspectors.stream_ids import StreamTypes, checked_stream_ids
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Message
from topology.model.names import listed
from topology.model.printable import printable

_ATTRIBUTE = re.compile(r"[a-z0-9]+")
_INTEGER = range(1, 2**31)
"""What `sequencetype` Integer counts before it wraps around."""


class CloudEvents(Normalised):
    """Inspects CloudEvents, in structured and binary mode. Other messages are unknown.

    An event's content is a dictionary of all attributes, and `data`: decoded where it is JSON, else
    text in structured mode, and bytes in binary mode or from Base64.

    Args:
        stream: the attribute that names the entity, such as `"subject"` or `"partitionkey"`;
            `key()` for the record's key; or several that are joined.
        sequence: the attribute that orders events; that of the sequence extension unless given.
        kind: the attribute that says what happened.
        sequence_type: as in `Inspector`, where the producer sets no `sequencetype`.
        stream_type: as in `Inspector`.
        datacontenttype: the type of data whose event does not say.

    Raises:
        DeclarationError: a value is wrong.
    """

    def __init__(
        self,
        stream: str | RecordKey | Sequence[str | RecordKey],
        sequence: str = "sequence",
        kind: str = "type",
        *,
        sequence_type: SequenceType = "auto",
        stream_type: StreamTypes = "auto",
        datacontenttype: str = "application/json",
    ) -> None:
        given = (stream,) if isinstance(stream, RecordKey) else stream
        names = listed("CloudEvents(stream", given, "name an attribute, key(), or several of them")
        if not names:
            raise DeclarationError("CloudEvents(stream=()): name at least one attribute")
        self.stream = tuple(
            name if isinstance(name, RecordKey) else _attribute("stream", name) for name in names
        )
        self.sequence = _attribute("sequence", sequence)
        self.kind = _attribute("kind", kind)
        self.sequence_type = checked_sequence_type("CloudEvents", sequence_type)
        self.stream_ids = checked_stream_ids("CloudEvents", stream_type, len(names))
        try:
            is_json(datacontenttype)
        except Malformed:
            raise DeclarationError(
                f"CloudEvents(datacontenttype={datacontenttype!r}): "
                "give a media type such as 'application/json'"
            ) from None
        self.datacontenttype = datacontenttype

    def compile(self) -> Inspect:
        """Return the inspector as one function of a message."""
        names, single, sequence, kind = self.stream, len(self.stream) == 1, self.sequence, self.kind
        default_type = self.datacontenttype
        sequence_type = self.sequence_type
        joined, stream_type = self.stream_ids.joined, self.stream_ids.first
        typed = sequence == "sequence" and sequence_type in ("auto", "revision")

        def inspect(message: Message) -> Found | None:
            event = cloudevent(message, default_type)
            if event is None:
                return None
            ids = [
                message.key if isinstance(name, RecordKey) else _value(event, name, "stream")
                for name in names
            ]
            stream = stream_id(ids[0], stream_type) if single else joined(ids)
            value = _value(event, sequence, "sequence")
            if typed and "sequencetype" in event:
                number = _typed(value, event["sequencetype"])
            else:
                number = sequence_number(value, sequence_type)
            return stream, number, kind_text(_value(event, kind, "kind")), event

        return inspect

    def __repr__(self) -> str:
        names = "+".join(name if isinstance(name, str) else repr(name) for name in self.stream)
        return f"CloudEvents(stream={names}, sequence={self.sequence}, kind={self.kind})"


def _attribute(what: str, name: object) -> str:
    if not isinstance(name, str) or not _ATTRIBUTE.fullmatch(name) or name == "data":
        raise DeclarationError(
            f"CloudEvents({what}={name!r}): give an attribute's name, such as 'subject'; "
            "it has lower-case letters and digits only"
        )
    return name


def _value(event: dict[str, Any], name: str, what: str) -> Any:
    try:
        return event[name]
    except KeyError:
        raise Malformed(f"the {what} is missing: no attribute {name!r}") from None


def _typed(value: Any, sequencetype: Any) -> int:
    """A sequence whose type the producer names."""
    if sequencetype != "Integer":
        raise Malformed(
            f"the sequencetype {printable(sequencetype, 80)!r} is not known; "
            "declare CloudEvents(sequence_type='number') or 'timestamp' to read it all the same"
        )
    number = sequence_number(value, "number")
    if number not in _INTEGER:
        raise Malformed(
            f"the sequence {number} is none of 1 to {_INTEGER[-1]} that sequencetype Integer "
            "counts; one that has wrapped around has no order any more"
        )
    return number
