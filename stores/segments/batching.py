"""When a batch is closed: by count, size, time, or because nothing more comes. Pure."""

from dataclasses import dataclass

MAX_COUNT = 10_000


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
        if not (self.size >= 1 and self.seconds >= 0 and self.idle >= 0):  # nor is NaN
            raise ValueError(
                f"size {self.size}, seconds {self.seconds}, idle {self.idle}: give a size of 1 "
                "byte or more, and times of 0 seconds or more"
            )


@dataclass(slots=True)
class OpenBatch:
    """How full a batch is. Times are of a monotonic clock, in seconds."""

    limits: BatchLimits
    count: int = 0
    size: int = 0
    began: float = 0.0
    last: float = 0.0

    def add(self, size: int, now: float) -> None:
        if not self.count:
            self.began = now
        self.count, self.size, self.last = self.count + 1, self.size + size, now

    def is_full(self, now: float) -> bool:
        """Whether it is to be closed; an empty one never is."""
        full = self.count >= self.limits.count or self.size >= self.limits.size
        return full or self.wait(now) == 0

    def wait(self, now: float) -> float | None:
        """Say for how many seconds a further message may be waited for, None for any time."""
        if not self.count:
            return None
        due = min(self.began + self.limits.seconds, self.last + self.limits.idle)
        return max(0.0, due - now)
