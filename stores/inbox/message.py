"""What an inbox says of the messages that it was given, and why it may not take one."""

from collections.abc import Sequence
from dataclasses import dataclass

from stores.message import HIGHEST, Message
from topology.model.printable import printable

LENGTH = 1_000
BYTES = 2_000
"""Characters, and bytes, of a topic, stream or kind: PostgreSQL's indices have room for no more."""


class InboxError(RuntimeError):
    """An inbox cannot do what it was asked for; the text names the thing and the remedy."""


@dataclass(slots=True)
class ReceiveResult:
    """What became of messages that were received; all but the refused ones are acknowledged by it.

    Attributes:
        stored: how many are in the inbox now.
        duplicates: how many were received before.
        conflicts: of them, how many differ from the message that waits under their sequence.
        malformed: how many can be of no stream; they are among the dead, with the reason.
        refused: the messages beyond `max_gap`; they are to come again.
    """

    stored: int = 0
    duplicates: int = 0
    conflicts: int = 0
    malformed: int = 0
    refused: Sequence[Message] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages that did not come although later ones did.

    Attributes:
        topic: of the stream.
        stream: its id.
        first: the first missing sequence.
        last: the last missing sequence.
        since: when a later message came first, in milliseconds since 1970.
    """

    topic: str
    stream: str
    first: int
    last: int
    since: int


@dataclass(frozen=True, slots=True)
class ParkedStream:
    """A stream that was set aside.

    Attributes:
        topic: of the stream.
        stream: its id.
        sequence: of the failed message, at its head.
        attempts: how often that failed.
        reason: the error of the last attempt.
        messages: how many wait in the stream, the failed one included.
    """

    topic: str
    stream: str
    sequence: int
    attempts: int
    reason: str
    messages: int


def mistyped(message: Message) -> str | None:
    """What of a message is of a wrong type, None if nothing is: a feed's inspector may be any."""
    texts = (("topic", message.topic), ("stream", message.stream), ("kind", message.kind or ""))
    for what, text in texts:
        if not isinstance(text, str):
            return f"the {what} is a {type(text).__name__}"
    for what, number in (("sequence", message.sequence), ("epoch", message.epoch)):
        if isinstance(number, bool) or not isinstance(number, int):
            return f"the {what} is a {type(number).__name__}"
    if not isinstance(message.content, bytes):
        return f"the content is a {type(message.content).__name__}"
    return None


def fault(message: Message, first: int) -> str | None:
    """Why a message can be of no stream, None if it can. first: the lowest sequence there is."""
    if message.damage is not None:
        return f"its log's row is damaged: {message.damage}"
    for what, text in (("topic", message.topic), ("stream", message.stream)):
        if not text:
            return f"the {what} is empty"
    for what, text in (
        ("topic", message.topic),
        ("stream", message.stream),
        ("kind", message.kind or ""),
    ):
        if len(text) > LENGTH:
            return f"the {what} is longer than {LENGTH:,} characters"
        if "\0" in text or not _encodes(text):
            return f"the {what} {printable(repr(text))} holds what no database takes as text"
        if len(text.encode()) > BYTES:
            return f"the {what} is longer than {BYTES:,} bytes"
    for name, value in message.headers.items():
        if not _encodes(name) or not _encodes(value):
            return f"the header {printable(repr(name))} holds what no database takes as text"
    if not first <= message.sequence <= HIGHEST:
        return f"the sequence {printable(message.sequence)} is not from {first} to {HIGHEST}"
    if not 0 <= message.epoch <= HIGHEST:
        return f"the epoch {printable(message.epoch)} is not from 0 to {HIGHEST}"
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
