"""Which records of the side topics may be of a stream."""

import re
from collections.abc import Callable

from topology.declaration.lanes import joined_lane, split_lane
from topology.model.event import Message


def side_filters(stream: str) -> dict[str, Callable[[Message], bool]]:
    """Side topic → whether a record of it may be of the stream. `Sides` has them by field."""
    keys = stream.encode(), joined_lane(stream, "").encode(), split_lane(stream)[0].encode()

    def keyed(record: Message) -> bool:
        key = record.key
        return key is not None and (key in keys or key.startswith(keys[1]))

    return {
        "dead": keyed,
        "errors": keyed,
        "late": keyed,
        "audit": keyed,
        "malformed": mentions(stream),
    }


def mentions(stream: str) -> Callable[[Message], bool]:
    """Whether a message has the stream's id in it, as a word of its own."""
    ids = {stream, split_lane(stream)[0]} if "|" in stream else {stream}
    bare = {each.replace("-", "") for each in ids if re.fullmatch("[0-9a-f-]{36}", each)}
    text = b"|".join(re.escape(each.encode()) for each in sorted({*ids, *bare}, key=len)[::-1])
    word = re.compile(b"(?<![0-9A-Za-z])(?:" + text + b")(?![0-9A-Za-z])", re.IGNORECASE)

    def found(record: Message) -> bool:
        return bool(
            (record.value and word.search(record.value))
            or (record.key and word.search(record.key))
            or any(
                value and word.search(value)
                for name, value in record.headers
                if not name.startswith("sequitur-")
            )
        )

    return found
