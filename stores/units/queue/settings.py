"""What a queue of units goes by."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The rules of a destination for one subscriber.

    Attributes:
        redelivery_limit: redeliveries of a message after which its unit is poisoned; None for no
            limit.
        redelivery_delay: seconds until a message that was rolled back comes again.
        poisoned: whether a poisoned unit is parked, or dead-lettered whole.
        look_ahead: a message is overtaken, by its sort key, only by messages of other units whose
            offset is at most this much higher.
        longest_wait: seconds, at most, that a not-before time or a redelivery delay may block.
        parked_messages: messages that may be parked; a unit beyond it is dead-lettered.
        parked_size: bytes of them, likewise. They are in memory, and count for the owner's limit.
        dead_for: seconds for which messages that follow into a dead-lettered unit share its fate.
        records: what was done by administration, at most this many of the latest.
    """

    redelivery_limit: int | None = 5
    redelivery_delay: float = 0.0
    poisoned: Literal["park", "dead_letter"] = "park"
    look_ahead: int = 1_000
    longest_wait: float = 30 * 86_400.0
    parked_messages: int = 10_000
    parked_size: int = 64 << 20
    dead_for: float = 3_600.0
    records: int = 1_000
