"""As of when a lookup finds the other side's value: a time, or the sequence that an event saw."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from topology.declaration.seconds import is_seconds
from topology.model.errors import DeclarationError, HandlerError
from topology.verbs.steps import checked_function

T = TypeVar("T")
VERSIONS = 1_000
HISTORY = 10_000
SLICE = 1_000
"""Milliseconds, at most."""


@dataclass(frozen=True, slots=True)
class AsOf(Generic[T]):
    """When a lookup is, as `as_of_time` and `as_of_sequence` make it.

    Args:
        left: an event's value → the sequence that it saw; None to go by time.
        wait: ms until a row goes out that is not final, None for never.
        keep: how far behind the right side's clock rows are kept: ms, or a number of events.
        history: how many of a key's last values are kept, if those of `keep` are fewer.
    """

    left: Callable[[T], int] | None
    wait: int | None
    keep: int
    history: int = 0

    @property
    def slice(self) -> int:
        """Rows that begin to wait within so many ms wait together, as long as the first of them."""
        return max(1, min(SLICE, (self.wait or 0) // 50))

    def reached(self, clock: int) -> int:
        """Below which times, or sequences, rows are final.

        Args:
            clock: the highest of the right side.
        """
        return clock if self.left is None else clock + 1

    def at(self, value: T, time: int) -> int:
        """What a value looks up.

        Args:
            value: the left value.
            time: of its event (ms).

        Raises:
            HandlerError: `left` returns no sequence.
        """
        if self.left is None:
            return time
        found = self.left(value)
        if isinstance(found, bool) or not isinstance(found, int) or abs(found) >= 2**63:
            raise HandlerError(
                f"as_of_sequence(left=…) returned {found!r:.100}; let it return the sequence that "
                "the event saw, and filter events without one out"
            )
        return found


def as_of_time(*, keep: float, wait: float | None = None, history: int = HISTORY) -> AsOf[Any]:
    """The right side's value at the time of the left event: the last one at or before it.

    A row is final once the right stream has an event with a later time.

    Args:
        keep: seconds behind the right stream's clock for which rows are kept, and may be revised
            although they are final. What comes of the right stream with an earlier time goes to the
            late topic.
        wait: seconds after which a row goes out that is not final, with what is known then; it is
            revised when it is final. 0 for at once, None for never.
        history: how many of a right stream's last values are kept, and all of the last `keep`
            seconds, for events of the left that are yet to come. What looks up an earlier one goes
            to the late topic.

    Raises:
        DeclarationError: it is no such number.
    """
    if not is_seconds(keep) or (wait is not None and wait != 0 and not is_seconds(wait)):
        raise DeclarationError(
            f"as_of_time(keep={keep!r}, wait={wait!r}): give seconds, above 0 for keep: how long "
            "rows may be revised, and after how long one goes out that is not final, or None"
        )
    _check_history("as_of_time", history)
    return AsOf(None, None if wait is None else round(wait * 1000), round(keep * 1000), history)


def as_of_sequence(
    left: Callable[[T], int], keep: int = VERSIONS, history: int = HISTORY
) -> AsOf[T]:
    """The right side's value at the sequence that the left event saw: exact, without clocks.

    A row waits for just that sequence, or for a higher one if it was given up.

    Args:
        left: a function of the left value to the sequence of the right stream.
        keep: how many sequences behind the right stream's last one rows are kept, and may be
            revised.
        history: how many of the right stream's last values are kept at least. What looks up
            earlier ones goes to the late topic.

    Raises:
        DeclarationError: it is no function, or no such number.
    """
    checked_function("as_of_sequence(left", left)
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise DeclarationError(f"as_of_sequence(keep={keep!r}): give how many, 1 or more")
    _check_history("as_of_sequence", history)
    return AsOf(left, None, keep, history)


def _check_history(of: str, history: Any) -> None:
    if isinstance(history, bool) or not isinstance(history, int) or history < 0:
        raise DeclarationError(
            f"{of}(history={history!r}): give how many values of a key are kept, 0 or more"
        )
