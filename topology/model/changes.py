"""What a handler yields: row changes for the read store, and messages for other topics."""

from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from topology.model.errors import DeclarationError, HandlerError
from topology.model.json_numbers import unfinite
from topology.model.names import checked_topic
from topology.model.printable import printable

COLLECTED_LIMIT = 32 << 20
"""Bytes of messages that a handler's outputs are collected up to: more than it may send."""
ITEMS_LIMIT = 100_000
"""Row changes and messages of one event."""


@dataclass(slots=True)
class Upsert:
    """Inserts a row of a read-store table, or sets some of its columns.

    Args:
        table: the table's name.
        key: column → value; the row's primary key.
        values: column → value; the other columns stay as they are.
    """

    table: str
    key: Mapping[str, Any]
    values: Mapping[str, Any]
    op: str = field(default="upsert", init=False)


@dataclass(slots=True)
class Delete:
    """Deletes a row of a read-store table. A row that is not there is no error.

    Args:
        table: the table's name.
        key: column → value; the row's primary key.
    """

    table: str
    key: Mapping[str, Any]
    op: str = field(default="delete", init=False)


@dataclass(slots=True)
class Emit:
    """Sends a message to a topic, in the commit unit of its event.

    Args:
        topic: the topic's name.
        key: the record's key; a text is written as UTF-8.
        value: the record's value. A value that is neither bytes nor None is written as JSON.
        headers: (name, value) pairs.
    """

    topic: str
    key: str | bytes | None
    value: Any
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass(slots=True)
class Late:
    """Says that an event is in sequence, but came too late in its own time: verbs yield it.

    reason: of what it is too late, for the record in the late topic.
    """

    reason: str


@dataclass(slots=True)
class FailedRows:
    """Says that rows of an event could not be made, while all else of it is done: verbs yield it.

    The event counts as processed. errors: what was raised, and of which row.
    """

    errors: Sequence[BaseException]


RowChange = Upsert | Delete
"""What a handler does to one row of a read-store table."""
Output = Upsert | Delete | Emit
"""What a handler may yield or return."""


def check_change(change: Upsert | Delete) -> None:
    """Raises HandlerError for a row change that no read store could apply."""
    # As nearly all are; a Mapping takes ten times as long to be known as one.
    if change.table.__class__ is str and change.key.__class__ is dict:
        values = change.key if change.__class__ is Delete else change.values  # type: ignore[union-attr]
        if change.table and change.key and values.__class__ is dict:
            return
    what = type(change).__name__
    if not isinstance(change.table, str) or not change.table:
        raise HandlerError(f"{what}(table={change.table!r}): name the table")
    if not isinstance(change.key, Mapping) or not change.key:
        raise HandlerError(
            f"{what}(table={change.table!r}, key={change.key!r}): "
            "give the row's key columns as {'column': value}"
        )
    if isinstance(change, Upsert) and not isinstance(change.values, Mapping):
        raise HandlerError(
            f"{what}(table={change.table!r}, values={change.values!r}): "
            "give the columns to set as {'column': value}"
        )


def check_message(message: Emit) -> None:
    """Raises HandlerError for a message that Kafka would not take, whatever its value."""
    try:
        checked_topic(message.topic)
    except DeclarationError as error:
        raise HandlerError(f"Emit: {error}") from None
    what = f"Emit(topic={message.topic!r})"
    if not isinstance(message.key, str | bytes | None):
        raise HandlerError(f"{what}: the key must be text, bytes or None")
    if not isinstance(message.headers, tuple | list):
        raise HandlerError(f"{what}: headers are a tuple of (name, value)")
    for header in message.headers:
        if not (
            isinstance(header, tuple)
            and len(header) == 2
            and isinstance(header[0], str)
            and isinstance(header[1], bytes | None)
        ):
            raise HandlerError(f"{what}: headers are tuples of a text and bytes")
        text_bytes(what, "the name of a header", header[0])


def text_bytes(what: str, part: str, text: str) -> bytes:
    """A text as Kafka has it. Raises HandlerError for one that is not Unicode text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise HandlerError(
            f"{what}: {part} {printable(text)} has surrogates, which are no text; give bytes"
        ) from None


def check_finite(what: str, value: Any) -> None:
    """Raises HandlerError that names where in `value` there is a number that JSON has not."""
    if (found := unfinite(value)) is not None:
        where, number = found
        raise HandlerError(
            f"{what}: {where or 'the value'} is {number}, which would become NULL without a word; "
            "give a finite number, None, or a text"
        )


def each_of(items: Any) -> Iterator[Any]:
    """What a handler returned, one output after the other. Raises HandlerError."""
    if isinstance(items, Iterable) and not isinstance(items, str | bytes | Mapping):
        return iter(items)
    if isinstance(items, Awaitable):
        getattr(items, "close", lambda: None)()
        raise HandlerError(
            "the handler returned what has to be awaited, but is not async itself; declare it with "
            "`async def`"
        )
    one = "one" if isinstance(items, Upsert | Delete | Emit) else "a value of type"
    raise HandlerError(
        f"the handler returned {one} {type(items).__name__}; yield each Upsert, Delete and Emit, "
        "or return a list of them"
    )


def collected(items: Iterable[Any]) -> list[Any]:
    """What a handler yields, or something more than it may."""
    if items.__class__ is list:
        return list(islice(items, ITEMS_LIMIT + 1))
    found: list[Any] = []
    size = 0
    for item in each_of(items):
        found.append(item)
        size += _length(item)
        if len(found) > ITEMS_LIMIT or size > COLLECTED_LIMIT:
            break
    return found


async def acollected(items: AsyncIterator[Any]) -> list[Any]:
    """The same of an asynchronous one."""
    found: list[Any] = []
    size = 0
    async for item in items:
        found.append(item)
        size += _length(item)
        if len(found) > ITEMS_LIMIT or size > COLLECTED_LIMIT:
            break
    return found


def _length(item: Any) -> int:
    """Bytes of a message that is known to be so large."""
    if item.__class__ is Emit and item.value.__class__ in (bytes, str):
        return len(item.value)
    return 0
