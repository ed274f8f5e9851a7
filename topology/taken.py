"""What became of the messages of one input partition before any view saw them."""

from dataclasses import dataclass

import orjson


@dataclass(slots=True)
class Taken:
    """Counts of an input partition, durable with its committed offset.

    read: messages read. malformed, unknown: of them, those that became no event. The rest are
    events: each view of the source receives all of them, or the by-stream topic does.
    """

    read: int = 0
    malformed: int = 0
    unknown: int = 0

    @property
    def events(self) -> int:
        """Messages that became events."""
        return self.read - self.malformed - self.unknown


def encode_taken(taken: Taken) -> str:
    """The counts as text, which a committed offset carries as its metadata."""
    return orjson.dumps(taken).decode()


def decode_taken(text: str | None) -> Taken:
    """The counts of a committed offset's metadata; zeros where it has none."""
    return Taken(**orjson.loads(text)) if text else Taken()
