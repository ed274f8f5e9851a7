"""A message as it arrives, and the event that an inspector makes of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Content = TypeVar("Content", default=Any)
else:
    from typing import TypeVar

    Content = TypeVar("Content")


class Message(Protocol):
    """What the engine reads of a message; aiokafka's ConsumerRecord has this shape already."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...
    @property
    def timestamp(self) -> int: ...


@dataclass(slots=True)
class Record:
    """A message that Sequitur holds itself: in a buffer row, in the test driver.

    Attributes:
        topic: the topic it came from.
        partition: the partition of that topic.
        offset: the offset in that partition.
        key: the record's key.
        value: the record's value.
        headers: (name, value) pairs.
        timestamp: milliseconds since 1970, as Kafka counts.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes]] = ()
    timestamp: int = 0


@dataclass(slots=True)
class Damaged(Record):
    """A record that could be read only in part: it is malformed, whatever its inspector says.

    reason: what of it could not be read. Its headers are readable, but not what they were.
    """

    reason: str = ""


def damaged(record: Record, reason: str) -> Damaged:
    """The same record as one that no event may be made of."""
    return Damaged(
        record.topic, record.partition, record.offset, record.key, record.value, record.headers,
        record.timestamp, reason,
    )  # fmt: skip


@dataclass(slots=True, eq=False)
class Draft:
    """An event in the making: its fields can be set. `draft.__class__ = Event` makes it one.

    That is half the price of a constructor that sets fields which nobody else can set.
    """

    stream: str
    sequence: int
    kind: str | None
    content: Any
    message: Message
    arrived: int = 0
    made: Any = field(init=False, repr=False)
    """What verbs have made of it, for the other views of its source; not set where nobody has."""


class Event(Draft, Generic[Content]):
    """A message that an inspector understood. Its attributes cannot be set.

    Attributes:
        stream: the entity's id, normalised to text.
        sequence: orders the events of the stream.
        kind: what happened, or None where the format has no kinds.
        content: the decoded body, as the inspector made it. All views see the same object: do not
            change it.
        message: the message itself, with its original topic, partition and offset.
        arrived: when the view's partition took it in, in milliseconds since 1970.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        # A type checker is told what `__setattr__` says.
        @property
        def stream(self) -> str: ...  # type: ignore[override]
        @property
        def sequence(self) -> int: ...  # type: ignore[override]
        @property
        def kind(self) -> str | None: ...  # type: ignore[override]
        @property
        def content(self) -> Content: ...
        @property
        def message(self) -> Message: ...  # type: ignore[override]
        @property
        def arrived(self) -> int: ...  # type: ignore[override]

    def __init__(
        self,
        stream: str,
        sequence: int,
        kind: str | None,
        content: Content,
        message: Message,
        arrived: int = 0,
    ) -> None:
        for name, value in zip(
            Draft.__slots__[:-1], (stream, sequence, kind, content, message, arrived), strict=True
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"event.{name} cannot be set: other views see the same event; "
            "keep what you change in a variable, or in the stream's state"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"event.{name} cannot be deleted")

    @property
    def lane(self) -> str | None:
        """The event's lane in a view with lanes, else None."""
        return None

    @property
    def was_dead(self) -> bool:
        """Whether it had been given up."""
        return False

    @property
    def hurry(self) -> Any:
        """Whether later events wait for this one; only in views with workers."""
        raise AttributeError("event.hurry: only views with workers have it; give workers=…")

    @property
    def idempotency_key(self) -> str:
        """The same over all attempts at the event; only in views with workers."""
        raise AttributeError(
            "event.idempotency_key: only views with workers have it; give workers=…"
        )


@dataclass(slots=True, eq=False)
class _LinkedDraft(Draft):
    previous: int | None = None


class LinkedEvent(_LinkedDraft, Event[Any]):
    """An event of a linked source, with its predecessor as it was when the event was made.

    A view that handles it first may change its content, which says the predecessor too.
    """

    __slots__ = ()


def linked_event(
    stream: str,
    sequence: int,
    kind: str | None,
    content: Any,
    message: Message,
    arrived: int,
    previous: int | None,
) -> LinkedEvent:
    """An event whose predecessor is known."""
    made: Any = _LinkedDraft(stream, sequence, kind, content, message, arrived, previous)
    made.__class__ = LinkedEvent
    event: LinkedEvent = made
    return event


def event_of(
    stream: str, sequence: int, kind: str | None, content: Any, message: Message, arrived: int
) -> Event[Any]:
    """The same as the constructor, in less time."""
    made: Any = Draft(stream, sequence, kind, content, message, arrived)
    made.__class__ = Event
    event: Event[Any] = made
    return event


_content: Callable[[Event], Any] = Draft.__dict__["content"].__get__


def read_content(event: Event) -> Any:
    """The content, if it is decoded by now; else None."""
    try:
        return _content(event)
    except AttributeError:
        return None
