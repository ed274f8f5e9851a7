"""A message of a log, before and after it has its number, and how far a reader of the log is."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from stores.message import HIGHEST, Message
from topology.model.printable import printable

MAX_CONTENT = 1_000_000
"""Bytes of a message's content; Kafka's own limit of a record is a little above."""
MAX_STREAM = 1_000
MAX_KIND = 200
MAX_HEADERS = 16_000
"""Bytes, each: of a stream, of a kind, and of the headers as JSON."""
RESERVED = "sequitur-"
"""How the headers begin that the transfer adds."""

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")

StreamId = str | int | UUID


class MessageLogError(RuntimeError):
    """A message log cannot be used as it is; the text names the thing and the remedy."""


class MessageRefused(ValueError):
    """A message cannot be taken into a log; the text says what of it, and why."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A message before it has its sequence.

    Attributes:
        topic: the stream's topic.
        stream: the stream's id.
        kind: what happened, or None.
        content: bytes as they are; anything else becomes JSON.
        headers: text by name.
    """

    topic: str
    stream: StreamId
    kind: str | None
    content: Any
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reader is in a log; take it as it comes from `read_after`.

    Everything up to `id` that `snapshot` sees has been read. What other transactions wrote up to
    `id` without having ended by then is found later by the snapshot, however late they end.

    Attributes:
        id: the highest id that was read.
        snapshot: what was visible then, in PostgreSQL.
        behind: while there are more such late messages than a read may return: how far these have
            been read.
        until: what was visible when that began.
    """

    id: int = 0
    snapshot: str | None = None
    behind: int = 0
    until: str | None = None

    def dumps(self) -> str:
        """Write the position as text, for `loads`."""
        return orjson.dumps([self.id, self.snapshot, self.behind, self.until]).decode()

    @classmethod
    def loads(cls, text: str) -> "Position":
        return cls(*orjson.loads(text))


START = Position()
"""Before the first message."""


@dataclass(frozen=True, slots=True)
class Page:
    """What one read of a log returned.

    Attributes:
        messages: in the order of their ids.
        position: to read on from.
    """

    messages: tuple[Message, ...]
    position: Position


def read_row(row: Sequence[Any]) -> Message:
    """A message of its row: id, topic, stream, sequence, kind, content, headers, captured_at.

    SQLite takes any value in any column. What is no message of a log is returned with its damage,
    under the topic and stream that it says it is of, so that it can be told of, and fixed or
    declared void; it raises nothing.
    """
    id, topic, stream, sequence, kind, content, headers, at = row
    found: Any = {}
    if headers is not None:
        try:
            found = orjson.loads(headers)
        except (orjson.JSONDecodeError, TypeError):
            found = None
    if isinstance(content, bytearray | memoryview):
        content = bytes(content)
    message = Message(topic, stream, sequence, kind, content, found, id=id, captured_at=at)
    types = topic.__class__, stream.__class__, sequence.__class__, content.__class__, at.__class__
    plain = types == _TYPES and (kind is None or kind.__class__ is str) and found.__class__ is dict
    if plain and stream and 1 <= sequence <= HIGHEST and 0 <= at < _LATEST:
        return message
    reason = damage(message)
    if reason is None:
        return message
    topic, stream = (each if isinstance(each, str) else repr(each) for each in (topic, stream))
    number = sequence if isinstance(sequence, int) else 0
    if not isinstance(content, bytes):
        content = b"" if content is None else str(content).encode(errors="replace")
    return Message(topic, stream, number, None, content, {}, id=id, damage=reason)


_TYPES = (str, str, int, bytes, float)
_LATEST = HIGHEST / 1e6


def damage(message: Message) -> str | None:
    """What of a message's row is not as a log writes it, None if all is well."""
    topic, stream, kind = message.topic, message.stream, message.kind
    sequence, at, headers = message.sequence, message.captured_at, message.headers
    if not isinstance(stream, str) or not isinstance(message.content, bytes):
        return "its stream is no text, or its content no bytes"
    if not isinstance(sequence, int) or not 1 <= sequence <= HIGHEST:
        return "its sequence is no number from 1 on"
    if not isinstance(at, int | float) or not 0 <= at < _LATEST:
        return "its time of capture is none"
    if not isinstance(headers, dict):
        return "its headers are not text by name"
    try:
        checked(Draft(topic, stream, kind, message.content, headers), sys.maxsize)
    except MessageRefused as error:
        return str(error)
    return None


def checked(draft: Draft, max_content: int = MAX_CONTENT) -> dict[str, Any]:
    """The draft as the columns of a row. Raises MessageRefused."""
    stream = draft.stream
    if not isinstance(stream, str | int | UUID) or isinstance(stream, bool):
        raise _refused(draft, f"its stream is a {type(stream).__name__}; give a str, int or UUID")
    if not isinstance(draft.topic, str) or not _TOPIC.fullmatch(draft.topic):
        raise _refused(draft, "a topic has 1 to 249 of the letters A-Z a-z 0-9 . _ -")
    if stream == "":
        raise _refused(draft, "its stream is empty")
    if draft.kind is not None and not isinstance(draft.kind, str):
        raise _refused(draft, f"its kind is a {type(draft.kind).__name__}; give a str or None")
    _check_text(draft, "stream", str(stream), MAX_STREAM)
    _check_text(draft, "kind", draft.kind or "", MAX_KIND)
    content = _content(draft)
    if len(content) > max_content:
        raise _refused(draft, f"its content has {len(content)} bytes, {max_content} are the limit")
    return {
        "topic": draft.topic,
        "stream": str(stream),
        "kind": draft.kind,
        "content": content,
        "headers": _headers(draft),
    }


def _content(draft: Draft) -> bytes:
    if isinstance(draft.content, bytes | bytearray | memoryview):
        return bytes(draft.content)
    try:
        return orjson.dumps(draft.content)
    except orjson.JSONEncodeError as error:
        raise _refused(draft, f"its content is no JSON ({error}); give bytes") from error


def _headers(draft: Draft) -> str | None:
    if not draft.headers:
        return None
    for name, value in draft.headers.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise _refused(draft, f"header {name!r} is no text by a text")
        if name.casefold().startswith(RESERVED):
            raise _refused(draft, f"header {name!r}: names with {RESERVED} are the transfer's own")
        _check_text(draft, "header", name + value, MAX_HEADERS)
    text = orjson.dumps(dict(draft.headers)).decode()
    _check_text(draft, "headers", text, MAX_HEADERS)
    return text


def text_fault(text: str, limit: int) -> str | None:
    """What keeps a text out of a log, None if nothing does. limit: bytes."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        return f"is no UTF-8 ({error.reason})"
    if size > limit:
        return f"has {size} bytes, {limit} are the limit"
    if "\0" in text:
        return "has a NUL, which PostgreSQL does not take"
    return None


def _check_text(draft: Draft, what: str, text: str, limit: int) -> None:
    if (fault := text_fault(text, limit)) is not None:
        raise _refused(draft, f"its {what} {fault}")


def _refused(draft: Draft, reason: str) -> MessageRefused:
    stream, topic = printable(repr(draft.stream), 80), printable(repr(draft.topic), 80)
    return MessageRefused(f"message for topic {topic}, stream {stream}: {reason}")
