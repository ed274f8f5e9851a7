"""Where a message came from, kept as headers while it travels through Sequitur's own topics."""

from topology.model.event import Message, Record

ORIGIN, ORIGIN_KEY, REASON = "sequitur-origin", "sequitur-key", "sequitur-reason"
"""Headers: topic/partition/offset/timestamp a message had; its own key; why it is set aside."""
IN_SEQUENCE = "sequitur-in-sequence"
"""Header of a record in the late topic whose event was handled, but is late in its own time."""


def origin(message: Message) -> bytes:
    """The value of the ORIGIN header."""
    place = f"{message.topic}/{message.partition}/{message.offset}/{message.timestamp}"
    return place.encode()


def original(record: Message) -> Message:
    """The message as its source had it, from its record in the by-stream topic.

    A record that says no such place is taken as it is: somebody else wrote it there.
    """
    headers = list(record.headers)
    key: bytes | None = None
    if headers and headers[-1][0] == ORIGIN_KEY:
        key = headers.pop()[1]
    if not headers or headers[-1][0] != ORIGIN:
        return record
    try:
        topic, *place = headers.pop()[1].decode().split("/")
        partition, offset, timestamp = map(int, place)
        if not all(-(2**63) <= number < 2**63 for number in (partition, offset, timestamp)):
            return record
        return Record(topic, partition, offset, key, record.value, headers, timestamp)
    except (AttributeError, ValueError):
        return record
