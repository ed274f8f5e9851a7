"""When a batch is closed: by count, size, time, or because nothing more comes. Pure."""

from dataclasses import dataclass
from enum import StrEnum

MAX_COUNT = 10_000


class Closing(StrEnum):
    """Why a batch is closed."""

    COUNT = "count"
    SIZE = "size"
    TIME = "time"
    IDLE = "idle"


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """What closes a batch; whatever comes first.

    Attributes:
        count: messages; 50 to 100 are typical, 1 makes each a unit of its own.
        size: bytes of content.
        seconds: since its first message.
        idle: seconds since its last one.

    Raises:
        ValueError: a limit is none.
    """

    count: int = 100
    size: int = 1_000_000
    seconds: float = 0.2
    idle: float = 0.02

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_COUNT:
            raise ValueError(f"count is {self.count}: a batch has 1 to {MAX_COUNT} messages")
        if self.size < 1 or self.seconds < 0 or self.idle < 0:
            raise ValueError(
                f"size {self.size}, seconds {self.seconds}, idle {self.idle}: give a size of 1 "
                "byte or more, and times of 0 seconds or more"
            )


@dataclass(slots=True)
class OpenBatch:
    """How full a batch is. Times are of a monotonic clock, in seconds.

    Attributes:
        limits: what closes it.
        count: its messages.
        size: their bytes.
        began: when the first one came.
        last: when the last one came.
    """

    limits: BatchLimits
    count: int = 0
    size: int = 0
    began: float = 0.0
    last: float = 0.0

    def add(self, size: int, now: float) -> None:
        """Take in a message."""
        if not self.count:
            self.began = now
        self.count, self.size, self.last = self.count + 1, self.size + size, now

    def closing(self, now: float) -> Closing | None:
        """Say why it is to be closed, None while it stays open; an empty one always does."""
        if not self.count:
            return None
        if self.count >= self.limits.count:
            return Closing.COUNT
        if self.size >= self.limits.size:
            return Closing.SIZE
        if now >= self.began + self.limits.seconds:
            return Closing.TIME
        return Closing.IDLE if now >= self.last + self.limits.idle else None

    def wait(self, now: float) -> float | None:
        """Say for how many seconds a further message may be waited for, None for any time."""
        if not self.count:
            return None
        due = min(self.began + self.limits.seconds, self.last + self.limits.idle)
        return max(0.0, due - now)
