"""Messages that are too large to travel through Sequitur's own topics."""

from topology.model.event import Message

TOPIC_BYTES = 8 << 20
"""What a record of Sequitur's own topics may have: a message plus what is noted of it."""
NOTED = 64 << 10
"""Bytes that are noted of a message at most: where it was, whose it is, why it is set aside."""
MESSAGE_BYTES = TOPIC_BYTES - NOTED
"""What a message may have, as `size_of_message` counts."""
ESCAPED = 6
"""Bytes that one of a key or a header may take in the row of a waiting event."""
HEADER = 10
"""Bytes that a header takes beside its name and value, at most."""


def size_of_message(message: Message) -> int:
    """Bytes that a message takes in any of the topics that it may come to, at most."""
    size = len(message.key or b"")
    for name, value in message.headers:
        size += len(name) + len(value or b"")
    return len(message.value or b"") + ESCAPED * size + HEADER * len(message.headers)


def too_large(message: Message) -> str | None:
    """Why a message cannot be taken, None if it can."""
    size = size_of_message(message)
    if size <= MESSAGE_BYTES:
        return None
    return (
        f"the message takes {size} bytes, its key and headers counted {ESCAPED} times; the limit "
        f"is {MESSAGE_BYTES}; its value is not here, but where it came from"
    )
