"""What ends a day, among the messages of a topic and the records of a segment. Pure."""

import re
from typing import Protocol, runtime_checkable

import orjson

from stores.segments.message import InboundMessage, OutboundMessage
from topology.model.replay_headers import DAY as DAY
from topology.model.replay_headers import is_replayed

DAY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
"""Ids of days; they follow each other as texts do."""
_CONTENT = b'{"%s"' % DAY.encode()


@runtime_checkable
class Endable(Protocol):
    """An inbound topic into which the end of a day can be written."""

    async def end_day(self, day: str) -> None:
        """Write it into each partition. Raises ConnectionError."""
        ...


def day_of(message: InboundMessage) -> str | None:
    """Return the id of the day that a message ends; None for any other one, or a replayed one."""
    if is_replayed(message.headers):
        return None
    for name, value in message.headers:
        if name == DAY:
            return value.decode("utf-8", "replace")
    if message.headers or not (message.value or b"").startswith(_CONTENT):
        return None
    try:
        found = orjson.loads(message.value or b"")
    except orjson.JSONDecodeError:
        return None
    day = found[DAY] if len(found) == 1 else None
    return day if isinstance(day, str) else None


def end_of_day(transport: str, day: str) -> OutboundMessage:
    """What stands for the end of a day in a segment: a message for nobody."""
    return OutboundMessage(transport, "", b"", headers=((DAY, day.encode()),))


def ended_by(message: OutboundMessage) -> str | None:
    """The day that a record of a segment ends, None for a message."""
    name, value = ("", b"") if message.destination else message.headers[0]
    return value.decode() if name == DAY else None
