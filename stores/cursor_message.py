"""A message as a cursor takes and gives it, and what is wrong with one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

HIGHEST = 2**63 - 1
"""The highest sequence there is."""


class CursorError(RuntimeError):
    """A cursor cannot do what it was asked for; the text names the thing and the remedy."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a stream.

    topic: streams of two topics are two, whatever their ids. sequence: from 1 on, without a gap,
    where the cursor counts. headers: text by name. epoch: of output records, how often their stream
    was built anew. void: there is no message of this sequence and will be none; it is passed in its
    turn, and nothing is delivered.
    """

    topic: str
    stream: str
    sequence: int
    kind: str | None
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    void: bool = False

    @property
    def value(self) -> bytes:
        """The content, as the sequencer compares it."""
        return self.content


@dataclass(slots=True)
class Received:
    """What became of messages that were received; all but the refused ones are acknowledged by it.

    stored: are in the cursor now. duplicates: were received before. conflicts: of them, those that
    differ from the one that waits under their sequence. malformed: can be of no stream, and are in
    the table of dead ones with the reason. refused: messages for which their stream has no room, as
    too many wait behind its gap already; they are to come again.
    """

    stored: int = 0
    duplicates: int = 0
    conflicts: int = 0
    malformed: int = 0
    refused: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages `first` to `last` that did not come although later ones did, since `since` (ms)."""

    topic: str
    stream: str
    first: int
    last: int
    since: int


@dataclass(frozen=True, slots=True)
class Parked:
    """A stream that was set aside: the message at its head failed `attempts` times.

    messages: how many wait in it, the failed one included.
    """

    topic: str
    stream: str
    sequence: int
    attempts: int
    reason: str
    messages: int


def fault(message: Message, first: int) -> str | None:
    """Why a message can be of no stream, None if it can. first: the lowest sequence there is."""
    for what, text in (("topic", message.topic), ("stream", message.stream)):
        if not text:
            return f"the {what} is empty"
    for what, text in (
        ("topic", message.topic),
        ("stream", message.stream),
        ("kind", message.kind or ""),
    ):
        if "\0" in text or not _encodes(text):
            return f"the {what} {text!r} holds what no database takes as text"
        if len(text) > 1000:
            return f"the {what} is longer than 1,000 characters"
    if not first <= message.sequence <= HIGHEST:
        return f"the sequence {message.sequence} is not from {first} to {HIGHEST}"
    if not 0 <= message.epoch <= HIGHEST:
        return f"the epoch {message.epoch} is not from 0 to {HIGHEST}"
    return None


def shown(text: str, limit: int = 4000) -> str:
    """A text of whatever is in it as any database takes it."""
    return text[:limit].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
