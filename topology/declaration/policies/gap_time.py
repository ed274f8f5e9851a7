"""How long a gap is held before it is given up, where that is learned from what comes late."""

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from topology.declaration.seconds import is_seconds
from topology.model.errors import DeclarationError

_DOUBT = 1.65
"""Standard deviations of doubt: one-sided, 95%."""


class Latenesses(Protocol):
    """How late the late events of a view came, in one partition. Old ones weigh less and less."""

    weight: float
    """How many late events were seen."""

    def all_but(self, count: float) -> float:
        """Return the seconds within which all late events came, except some.

        Args:
            count: how many may have been later.
        """


@runtime_checkable
class GapTime(Protocol):
    """Decides how long a view holds gaps: a class of yours, given as `skip(after=…)`."""

    @property
    def start(self) -> float:
        """Seconds, as long as nothing is known."""

    @property
    def at_least(self) -> float:
        """The lower bound, in seconds."""

    @property
    def at_most(self) -> float:
        """The upper bound, in seconds."""

    def after(self, seen: Latenesses) -> float | None:
        """Choose the time from what was seen; the engine keeps it within the bounds.

        The answer may depend on `seen` only: no clock, no I/O. If the method raises, or returns no
        number, `start` holds.

        Args:
            seen: the latenesses in one partition.

        Returns:
            Seconds, or None for `start`.
        """


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The time is learned: of the events that come late, a share of `wrong_skip` is given up.

    start: seconds until enough was seen. at_least, at_most: bounds of the time, in seconds.
    """

    wrong_skip: float = 0.001
    start: float = 30.0
    at_least: float = 1.0
    at_most: float = 600.0

    def after(self, seen: Latenesses) -> float | None:
        """The shortest time that keeps the share, with 95% confidence; None if too few came."""
        allowed = _allowed(seen.weight * self.wrong_skip)
        return None if allowed is None else seen.all_but(allowed)


def adaptive(
    wrong_skip: float = 0.001,
    *,
    start: float = 30.0,
    at_least: float = 1.0,
    at_most: float = 600.0,
) -> Adaptive:
    """Learn from the lateness that shows when to give a gap up.

    Args:
        wrong_skip: the share of late events that may be given up; 0.001 is one in a thousand.
        start: seconds to wait until enough late events were seen, which are 3 / wrong_skip.
        at_least: the lower bound of the learned time, in seconds.
        at_most: the upper bound of the learned time, in seconds.

    Raises:
        DeclarationError: a value is out of its range.
    """
    call = f"adaptive(wrong_skip={wrong_skip!r})"
    number = isinstance(wrong_skip, int | float) and not isinstance(wrong_skip, bool)
    if not number or not 1e-6 <= wrong_skip <= 0.5:
        raise DeclarationError(f"{call}: wrong_skip must be a share from 0.000001 to 0.5")
    policy = Adaptive(wrong_skip, start, at_least, at_most)
    check_bounds(call, policy)
    return Adaptive(float(wrong_skip), float(start), float(at_least), float(at_most))


def check_bounds(call: str, policy: GapTime) -> None:
    """Whether a policy's bounds are seconds, and in order. Raises DeclarationError."""
    start, at_least, at_most = policy.start, policy.at_least, policy.at_most
    for name, value in (("start", start), ("at_least", at_least), ("at_most", at_most)):
        if not is_seconds(value):
            raise DeclarationError(f"{call}: {name}={value!r} must be a number of seconds above 0")
    if not at_least <= start <= at_most:
        raise DeclarationError(
            f"{call}: start={start:g} must lie between at_least={at_least:g} and "
            f"at_most={at_most:g}"
        )


def _allowed(expected: float) -> float | None:
    """How many late events may have been beyond the time, of `expected` that are beyond in truth.

    None if even none would be too few to tell. Of k seen, k + 1.65 √k + 3 may be the truth (95%).
    """
    if expected < 3:
        return None
    root = (-_DOUBT + math.sqrt(_DOUBT**2 + 4 * (expected - 3))) / 2
    return root**2
