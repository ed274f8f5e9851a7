"""What a relay sends by: Kafka or HTTP behind one small protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from stores.message import HIGHEST, Message
from stores.outbox.message import MAX_STREAM, text_fault
from topology.model.printable import printable

MAX_NAME = 249
"""Bytes of a topic's name."""
PARTITIONS = 1 << 20
"""No topic has so many."""


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


class MissingRange(NamedTuple):
    """Sequences `first` to `last` that a receiver misses. answers: where to tell of void ones."""

    topic: str
    stream: str
    first: int
    last: int
    view: str = ""
    commands: str = ""
    partition: int = 0


def checked_missing(
    topic: Any,
    stream: Any,
    first: Any,
    last: Any,
    view: Any = "",
    commands: Any = "",
    partition: Any = 0,
) -> MissingRange:
    """What somebody says that he misses, where it can be asked of a log. Raises ValueError."""
    limits = (
        ("topic", topic, MAX_NAME), ("stream", stream, MAX_STREAM), ("view", view, MAX_NAME),
        ("commands", commands, MAX_NAME),
    )  # fmt: skip
    for what, text, limit in limits:
        if not isinstance(text, str):
            raise ValueError(f"its {what} is no text")
        if (fault := text_fault(text, limit)) is not None:
            raise ValueError(f"its {what} {fault}")
    if not topic or not stream:
        raise ValueError("its topic or stream is empty")
    for what, number in (("first", first), ("last", last), ("partition", partition)):
        if isinstance(number, bool) or not isinstance(number, int):
            raise ValueError(f"its {what} is no number")
    if not 1 <= first <= last <= HIGHEST:
        raise ValueError(f"sequences {printable(first)} to {printable(last)} are no range")
    if not 0 <= partition < PARTITIONS:
        raise ValueError(f"{printable(partition)} is no partition")
    return MissingRange(topic, stream, first, last, view, commands, partition)


@dataclass(slots=True)
class SendResult:
    """What came of a batch.

    refused: messages that were not taken, for a reason that is theirs or their stream's; all others
    are acknowledged. topics: of them, those of which nothing was taken, and why. missing: what the
    receiver says that it misses.
    """

    refused: Sequence[Message] = ()
    missing: Sequence[MissingRange] = field(default_factory=list)
    reason: str = ""
    topics: Mapping[str, str] = field(default_factory=dict)


class Link(Protocol):
    """A way to the receivers. One call at a time."""

    async def open(self, log: str = "") -> None:
        """Connect, and shut out any earlier relay of this log. Raises Unavailable.

        log: what tells the log from all others, whichever databases they are in."""

    async def send(self, messages: Sequence[Message], answers: Sequence[Answer] = ()) -> SendResult:
        """Send messages, in order per stream, and wait until they are acknowledged.

        Raises Unavailable, with nothing known of any of them, and Superseded.
        """

    async def void(self, missing: MissingRange, first: int, last: int) -> list[Answer]:
        """What tells who misses them that the sequences `first` to `last` are void."""

    async def close(self) -> None: ...
