"""JSON bodies, inspected by field paths."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import orjson

from topology.inspectors.fields import Field, RecordKey, getter, path_steps
from topology.inspectors.inspector import Found, Inspect, Normalised, Several, kind_text
from topology.inspectors.json_in_short import LIMIT, ShortJson, in_short
from topology.inspectors.lazy import LazyJson
from topology.inspectors.normalise import (
    SequenceType,
    checked_sequence_type,
    sequence_number,
    stream_id,
)
from topology.inspectors.stream_ids import StreamTypes, checked_stream_ids
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Damaged, Draft, Event, Message

_IDS_KEPT = 100_000


class Inspector(Normalised):
    """Inspects JSON bodies. A field is a path such as `"order.id"`, `key()` or `header("name")`.

    Args:
        stream: the field that names the entity, or several that are joined.
        sequence: the field that orders the events of a stream.
        kind: the field that says what happened.
        sequence_type: how to read the sequence where `"auto"` would be wrong: `"number"`,
            `"timestamp"` or `"revision"`.
        stream_type: how to read the stream where `"auto"` would be wrong: `"text"`, `"int"` or
            `"guid"`; one for all fields, or one for each.

    Raises:
        DeclarationError: a value is wrong.
    """

    def __init__(
        self,
        stream: Field | Sequence[Field],
        sequence: Field,
        kind: Field | None = None,
        *,
        sequence_type: SequenceType = "auto",
        stream_type: StreamTypes = "auto",
    ) -> None:
        fields = (
            (stream,) if isinstance(stream, str) or not isinstance(stream, Sequence) else stream
        )
        if not fields:
            raise DeclarationError("Inspector(stream=()): name at least one field")
        self.stream: tuple[Field, ...] = tuple(fields)
        self.sequence = sequence
        self.kind = kind
        self.sequence_type = checked_sequence_type("Inspector", sequence_type)
        self.stream_ids = checked_stream_ids("Inspector", stream_type, len(self.stream))
        self._stream_getters = tuple(getter(f, "stream") for f in self.stream)
        self._sequence_getter = getter(sequence, "sequence")
        self._kind_getter = None if kind is None else getter(kind, "kind")

    def compile(self) -> Inspect:
        """Return the inspector as one function of a message."""
        loads = orjson.loads
        streams, first = self._stream_getters, self._stream_getters[0]
        single = len(streams) == 1
        times = self.sequence_type == "timestamp"
        ids: dict[Any, str] = {}
        joined, stream_type = self.stream_ids.joined, self.stream_ids.first
        get_sequence, get_kind, sequence_type = (
            self._sequence_getter,
            self._kind_getter,
            self.sequence_type,
        )

        def stream_of(raw: Any) -> str:
            # Streams come again and again: remember how a raw id reads. Ids of other types than
            # these would be mixed up, as 1 and True are.
            stream = stream_id(raw, stream_type)
            if raw.__class__ is bytes or raw.__class__ is str:
                if len(ids) >= _IDS_KEPT:
                    ids.clear()
                ids[raw] = stream
            return stream

        names = [_only_name(field) for field in (*self.stream, self.sequence, self.kind)]
        keyed_kind = isinstance(self.kind, RecordKey)
        plain = len(names) == 3 and names[1] and _OTHER not in names and not keyed_kind
        fields = ShortJson(*names) if plain else None
        short = fields if fields and fields.read else None

        def inspect(message: Message) -> Found:
            value = message.value
            if value is None:
                raise Malformed("the value is null")
            try:
                content = body = loads(value)
            except (orjson.JSONDecodeError, RecursionError) as error:
                body = None if short is None else short.of_refused(value)
                if body is None:
                    raise Malformed(f"the value is not JSON: {error}") from None
                content = LazyJson(value)
            if single:
                raw = first(body, message)
                known = raw.__class__ is bytes or raw.__class__ is str
                stream = (ids.get(raw) if known else None) or stream_of(raw)
            else:
                stream = joined(get(body, message) for get in streams)
            sequence = get_sequence(body, message)
            if sequence.__class__ is not int or times or not -LIMIT <= sequence < LIMIT:
                sequence = sequence_number(sequence, sequence_type)
            kind = None if get_kind is None else kind_text(get_kind(body, message))
            return stream, sequence, kind, content

        if plain:
            several = _several(stream_of, ids, names, sequence_type)
            if short is not None:
                number = partial(sequence_number, kind=sequence_type)
                keyed, kinds = names[0] is None, get_kind is not None
                several = in_short(several, short, stream_of, ids, keyed, kinds, times, number)
            inspect.several = several  # type: ignore[attr-defined]
        return inspect

    def __repr__(self) -> str:
        names = "+".join(_name(f) for f in self.stream)
        kind = "" if self.kind is None else f", kind={_name(self.kind)}"
        return f"Inspector(stream={names}, sequence={_name(self.sequence)}{kind})"


_OTHER: Any = object()


def _only_name(field: Field | None) -> Any:
    """The name of a field of the body itself, None for the record's key or no field, else
    _OTHER."""
    if field is None or isinstance(field, RecordKey):
        return None
    steps = path_steps(field) if isinstance(field, str) else ()
    return steps[0] if len(steps) == 1 else _OTHER


def _several(
    stream_of: Callable[[Any], str],
    ids: dict[Any, str],
    names: Sequence[str | None],
    sequence_type: SequenceType,
) -> Several:
    """The same as the inspector for many messages in a row, in less time. names: of stream,
    sequence and kind in the body; None for the record's key, and for no kind."""
    loads, known, times = orjson.loads, ids.get, sequence_type == "timestamp"
    stream_name, sequence_name, kind_name = names

    def several(
        messages: Iterator[Message], start: int, now: int, append: Callable[[Event], None]
    ) -> Message | None:
        kind = None
        for message in messages:
            try:
                body = loads(message.value)  # type: ignore[arg-type]
                raw = message.key if stream_name is None else body[stream_name]
                stream = known(raw) or stream_of(raw)
                sequence = body[sequence_name]
                if sequence.__class__ is not int or times:
                    sequence = sequence_number(sequence, sequence_type)
                if kind_name is not None:
                    kind = kind_text(body[kind_name])
            except Exception:
                return message
            if not start <= sequence < LIMIT or message.__class__ is Damaged:
                return message
            event: Any = Draft(stream, sequence, kind, body, message, now)
            event.__class__ = Event
            append(event)
        return None

    return several


def _name(field: Field) -> str:
    return field if isinstance(field, str) else repr(field)
