"""A message of a stream: the same from the outbox, over whatever carries it, to the inbox."""

from collections.abc import Mapping
from dataclasses import dataclass, field

HIGHEST = 2**63 - 1
"""The highest sequence."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a stream.

    Attributes:
        topic: its streams are apart from those of other topics, whatever their ids.
        stream: the stream's id.
        sequence: 1, 2, 3 … in (topic, stream), without a gap; in an output topic it only grows.
        kind: what happened, None if the producer does not say.
        content: the body.
        headers: text by name.
        epoch: of an output record: how often its stream was built anew.
        void: there is no message of this sequence, and there will be none. An inbox passes it in
            its turn and delivers nothing.
        id: of a message that was read from a log: its place there. Ids ascend with the sequence in
            each stream; some are missing, and a lower one may become visible after a higher one.
        captured_at: of a message that was read from a log: seconds since 1970, else 0.
        damage: of a message that was read from a log: what is wrong with its row, if something
            other than a log changed it. Such a message can be neither sent nor received.
    """

    topic: str
    stream: str
    sequence: int
    kind: str | None
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    epoch: int = 0
    void: bool = False
    id: int = 0
    captured_at: float = 0.0
    damage: str | None = None
