"""JSON bodies of which only the fields that place an event are read: the rest when it is asked for.

Both ways have to agree on what is an event. So a body that this one does not read, the whole way
decides on; and what it does read and orjson does not, which is a number beyond the range of a
float somewhere else in the body, is an event either way: whoever looks into its content fails.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Annotated, Any

import msgspec
import orjson

from topology.inspectors.inspector import Several, kind_text
from topology.inspectors.lazy import LazyJson
from topology.model.event import Damaged, Draft, Event, Message

FEW = 16
"""Events of a batch whose contents may be asked for before it is thought that all of them will."""
BATCHES = 64
"""That are read whole then, before that is thought over."""
LIMIT = 2**63
_Number = Annotated[int, msgspec.Meta(ge=-LIMIT, le=LIMIT - 1)]
_DEEP = 500
"""Brackets of which a body may be one within the other without anybody's limit."""


class ShortJson:
    """Reads `stream`, `sequence` and `kind` of a body, where they have the names that are given.

    None as a name is no such field. read: a body that is ASCII → its fields, as attributes; raises
    an Exception for what is left to the whole way; None where the names cannot be read in short.
    """

    def __init__(self, stream: str | None, sequence: str, kind: str | None) -> None:
        self._names = stream, sequence, kind
        names = {field: name for field, name in self._fields if name is not None}
        types: list[Any] = [(field, str if field == "kind" else _Number | str) for field in names]
        self.read: Callable[[bytes], Any] | None = None
        if len({*names.values()}) == len(names):
            with suppress(ValueError):
                body = msgspec.defstruct("Body", types, rename=names, gc=False)
                self.read = msgspec.json.Decoder(body).decode

    def __reduce__(self) -> tuple[Any, ...]:
        return ShortJson, self._names

    @property
    def _fields(self) -> Iterator[tuple[str, str | None]]:
        return zip(("stream", "sequence", "kind"), self._names, strict=True)

    def of_refused(self, value: bytes) -> dict[str, Any] | None:
        """The fields, by their names in the body, of one that orjson refuses and that is an event
        all the same; None if it is none."""
        if self.read is None or not narrow(value):
            return None
        try:
            value.decode()
            found = self.read(value)
        except Exception:
            return None
        return {name: getattr(found, field) for field, name in self._fields if name is not None}


def narrow(value: bytes) -> bool:
    """Whether a body is not so deep that it might be refused for that; if it is wide, who knows."""
    return len(value) < 2 * _DEEP or value.count(b"[") + value.count(b"{") < _DEEP


class _Unread(Draft):
    """One without content."""

    __slots__ = ()

    def __init__(
        self, stream: str, sequence: int, kind: str | None, message: Message, arrived: int
    ) -> None:
        self.stream = stream
        self.sequence = sequence
        self.kind = kind
        self.message = message
        self.arrived = arrived


class _Asked:
    """How many contents were asked for, and how many batches are to be read whole."""

    __slots__ = ("contents", "whole")

    def __init__(self) -> None:
        self.contents = self.whole = 0


_set_content: Callable[[Event, Any], None] = Draft.__dict__["content"].__set__


def _events(asked: _Asked) -> type[Event]:
    """The class of events whose content nobody has asked for: it is decoded once, for all."""

    def content(event: Event) -> Any:
        asked.contents += 1
        value: Any = event.message.value
        try:
            found = orjson.loads(value)
        except ValueError:
            found = LazyJson(value)
        _set_content(event, found)
        object.__setattr__(event, "__class__", Event)
        return found

    return type("Event", (Event,), {"__slots__": (), "content": property(content)})


class _MadeAnew:
    """What `in_short` made; in another process that is made anew, since a class made at run time
    loses its slots on the way."""

    __slots__ = ("_made_of", "_several")

    def __init__(self, several: Several, made_of: tuple[Any, ...]) -> None:
        self._several, self._made_of = several, made_of

    def __call__(
        self, messages: Iterator[Message], start: int, now: int, append: Callable[[Event], None]
    ) -> Message | None:
        return self._several(messages, start, now, append)

    def __reduce__(self) -> tuple[Any, ...]:
        return in_short, self._made_of


def in_short(
    whole: Several,
    json: ShortJson,
    stream_of: Callable[[Any], str],
    ids: dict[Any, str],
    keyed: bool,
    kinds: bool,
    times: bool,
    number: Callable[[Any], int],
) -> Several:
    """The same as `whole`, in less time for events whose contents nobody asks for.

    keyed: whether the stream is the record's key. kinds: whether there is a kind. times: whether
    ints too are to be made a sequence by `number`.
    """
    asked, known = _Asked(), ids.get
    unread: Any = _events(asked)

    def short(
        messages: Iterator[Message], start: int, now: int, append: Callable[[Event], None]
    ) -> Message | None:
        kind, read = None, json.read
        assert read is not None
        for message in messages:
            value: Any = message.value
            try:
                if len(value) >= 2 * _DEEP and not narrow(value):
                    return message
                fields = read(value)
                if not value.isascii():
                    # Of fields that it does not look at, it does not see that they are no UTF-8.
                    value.decode()
                raw = message.key if keyed else fields.stream
                stream = known(raw) or stream_of(raw)
                sequence = fields.sequence
                if sequence.__class__ is not int or times:
                    sequence = number(sequence)
                if kinds:
                    kind = kind_text(fields.kind)
            except Exception:
                return message
            if not start <= sequence < LIMIT or message.__class__ is Damaged:
                return message
            event: Any = _Unread(stream, sequence, kind, message, now)
            event.__class__ = unread
            append(event)
        return None

    def several(
        messages: Iterator[Message], start: int, now: int, append: Callable[[Event], None]
    ) -> Message | None:
        if asked.contents > FEW:
            asked.whole = BATCHES
        asked.contents = 0
        if asked.whole:
            asked.whole -= 1
            return whole(messages, start, now, append)
        message = short(messages, start, now, append)
        if message is None:
            return None
        return whole(chain((message,), messages), start, now, append)

    return _MadeAnew(several, (whole, json, stream_of, ids, keyed, kinds, times, number))
