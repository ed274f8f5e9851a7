"""Which id a message has when it is published, and for how long that id tells a repetition.

What a log delivers has an origin, and that is the same whenever it is read. A queue has no offsets:
there the message itself has to say who it is, by its stream and sequence, for ever; else by its
producer's id, within a window that is declared. What says nothing can repeat without anybody's
noticing, so redeliveries of such messages are counted.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from uuid import uuid4

from stores.segments.message import InboundMessage, OutboundMessage

_LONGEST = 400


class Known(StrEnum):
    """By what a message is known when it comes again."""

    ORIGIN = "origin"
    STREAM = "stream"
    PRODUCER = "producer"
    NOT = "not"


@dataclass(frozen=True, slots=True)
class MessageIdentity:
    """By what a message is known, what its ids begin with, for how many seconds (None: ever)."""

    known: Known
    id: str
    seconds: float | None = None


def identify(message: InboundMessage, site: str, window: float | None = None) -> MessageIdentity:
    """Say who a message is.

    Args:
        message: as it was delivered.
        site: where it was consumed; positions of two sites are not the same.
        window: seconds for which producers' ids are kept; None: they are not believed.
    """
    topic, where = quoted(message.topic), f"{message.partition}/{message.offset}"
    if message.replayable:
        return MessageIdentity(Known.ORIGIN, f"{quoted(site)}/{topic}/{where}")
    if message.stream is not None and message.sequence is not None:
        name = f"stream/{topic}/{quoted(message.stream)}/{message.sequence}"
        return MessageIdentity(Known.STREAM, storable(name))
    if message.producer_id is not None and window is not None:
        name = f"producer/{topic}/{quoted(message.producer_id)}"
        return MessageIdentity(Known.PRODUCER, storable(name), window)
    # A queue's positions begin anew with each connection: they are no one's id.
    return MessageIdentity(Known.NOT, f"delivery/{topic}/{uuid4().hex}")


def numbered(
    identity: MessageIdentity, outputs: Iterable[OutboundMessage]
) -> list[OutboundMessage]:
    """Give the outbound messages of one message their ids: what it is known by, and their number.

    Args:
        identity: of the message that they came of.
        outputs: in the order in which routing made them, which is the same each time.
    """
    return [replace(each, id=f"{identity.id}/{n}") for n, each in enumerate(outputs)]


def storable(id: str) -> str:
    """An id that every database takes: one that is long, or has a NUL, is known by its digest."""
    if len(id) <= _LONGEST and "\0" not in id:
        return id
    return f"digest/{sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()}"


def quoted(name: str) -> str:
    """So that no two ids are the same whose parts are not."""
    return name.replace("%", "%25").replace("/", "%2F")
