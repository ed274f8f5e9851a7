"""What a relay sends by: Kafka or HTTP behind one small protocol."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from stores.message import Message


class Unavailable(RuntimeError):
    """The other side does not take anything now; the text says which and why. Try again."""


class Superseded(RuntimeError):
    """The other side knows of a later relay, and takes nothing from this one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What answers a request for a message that is void, beside the messages' own way.

    topic, partition, key, value, headers: of a Kafka record; partition None goes by the key.
    """

    topic: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()
    partition: int | None = None


class Missing(NamedTuple):
    """Sequences `first` to `last` that a receiver misses. answers: where to tell of void ones."""

    topic: str
    stream: str
    first: int
    last: int
    view: str = ""
    commands: str = ""
    partition: int = 0


@dataclass(slots=True)
class Sent:
    """What came of a batch.

    refused: messages that were not taken, for a reason that is theirs; all others are acknowledged.
    missing: what the receiver says that it misses.
    """

    refused: Sequence[Message] = ()
    missing: Sequence[Missing] = field(default_factory=list)
    reason: str = ""


class Link(Protocol):
    """A way to the receivers. One call at a time."""

    async def open(self) -> None:
        """Connect, and shut out any earlier relay of the same name. Raises Unavailable."""

    async def send(self, messages: Sequence[Message], answers: Sequence[Answer] = ()) -> Sent:
        """Send messages, in order per stream, and wait until they are acknowledged.

        Raises Unavailable, with nothing known of any of them, and Superseded.
        """

    async def void(self, missing: Missing, first: int, last: int) -> list[Answer]:
        """What tells who misses them that the sequences `first` to `last` are void."""

    async def close(self) -> None: ...
