"""What an event comes to for one key: the records between the two views of a fold by key."""

from dataclasses import dataclass
from typing import Any

import orjson

from topology.declaration.orders import StreamOrder
from topology.inspectors.inspector import Inspected
from topology.model.errors import Malformed
from topology.model.event import Event, Message
from topology.model.hop_headers import EPOCH, SEQUENCE, STREAM
from topology.sequencer.own_order import OwnOrdering


@dataclass(frozen=True, slots=True)
class Contribution:
    """One event's part in the fold of a key.

    missing: how many events are missing right before it. time: of the event (ms). made: what the
    aggregate makes of it; nothing in a correction of `missing`. stream, sequence, epoch: of the
    event, and how often its stream had been rebuilt.
    """

    missing: int
    time: int
    made: list[Any]
    stream: str = ""
    sequence: int = 0
    epoch: int = 0

    def encode(self) -> bytes:
        """A record's value."""
        return orjson.dumps([self.missing, self.time, self.made])


@dataclass(frozen=True, slots=True)
class InOffsetOrder(StreamOrder):
    """The order of a topic that is filled in order: what comes next is next."""

    def follows(self, event: Event, last: int | None) -> bool:
        return True

    def ordering(self, **policies: Any) -> OwnOrdering:
        return OwnOrdering(follows=self.follows, **policies)


def contribution_of(message: Message) -> Inspected:
    """Inspect a record: its stream is the key, its sequence the offset.

    Raises:
        Malformed: nobody but the view before it may write to the topic, and this is none of its.
    """
    try:
        headers = dict(message.headers)
        missing, time, made = orjson.loads(message.value or b"")
        content = Contribution(
            int(missing), int(time), list(made), (headers[STREAM] or b"").decode(),
            int(headers[SEQUENCE] or b""), int(headers.get(EPOCH) or b"0"),
        )  # fmt: skip
        key = (message.key or b"").decode()
    except (ValueError, TypeError, KeyError) as error:
        raise Malformed(f"no record of a fold by key: {error}") from None
    return Inspected(stream=key, sequence=message.offset, kind=None, content=content)


def as_correction(before: bytes, after: bytes) -> bytes | None:
    """What to send where a rebuild makes another record of an event, None if it is the same.

    before, after: the values. What an event comes to does not depend on others; how many are
    missing before it does.
    """
    was, now = orjson.loads(before), orjson.loads(after)
    difference = now[0] - was[0]
    return Contribution(difference, now[1], []).encode() if difference else None
