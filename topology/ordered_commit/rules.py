"""The rules of an ordered commit: which order, who begins, what is done when an older one lasts."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from topology.model.errors import DeclarationError
from topology.ordered_commit.values import OpenEvent

MAX_EVENTS = 10_000
"""Open events, from which on intake pauses, unless rules say otherwise."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes of open events and of what they staged, from which on intake pauses."""
LONGEST = 86_400.0
"""The most seconds of a wait, a time limit, or a backoff."""

Critical = Callable[[OpenEvent, OpenEvent], bool]
"""Whether the later event (second) must not be committed before the older one (first)."""


def _seconds(name: str, value: object, *, zero: bool = True) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 <= value <= LONGEST and (zero or value)):  # type: ignore[operator]
        least = "from 0" if zero else "above 0"
        given = f"{name}={value!r}" + ")" * name.count("(")
        raise DeclarationError(f"{given}: must be a number of seconds {least} to {LONGEST:.0f}")


def _count(name: str, value: object, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise DeclarationError(f"{name}={value!r}: must be an int from {least} to {most}")


@dataclass(frozen=True, slots=True)
class WaitAndRollBack:
    """After the wait, all later finished work is rolled back, and run again after the older one.

    wait: seconds that later finished work waits for the older event. cancel_older: whether the
    older event's own attempt is rolled back too, if it has been running for that long.
    """

    wait: float = 10.0
    cancel_older: bool = False

    def __post_init__(self) -> None:
        _seconds("wait_and_roll_back(wait", self.wait)


@dataclass(frozen=True, slots=True)
class WaitAndCommit:
    """After the wait, later work commits first if it is not critical, and is rolled back if it is.

    wait: seconds that later finished work waits for the older event. critical: decides a pair of
    events; None: two are critical if one writes a key that the other touches, and if it is not
    known what the older one touches. Events of one stream always are.
    """

    wait: float = 10.0
    critical: Critical | None = None

    def __post_init__(self) -> None:
        _seconds("wait_and_commit(wait", self.wait)
        if self.critical is not None and not callable(self.critical):
            raise DeclarationError(
                f"wait_and_commit(critical={self.critical!r}): must be a function of "
                "(older, later), or None"
            )


WhenOlderIsOpen = WaitAndRollBack | WaitAndCommit


def wait_and_roll_back(wait: float = 10.0, *, cancel_older: bool = False) -> WaitAndRollBack:
    """Wait for an older event; then roll later finished work back, and run it again after it.

    Args:
        wait: seconds.
        cancel_older: whether the older event's attempt is cancelled and begun again, too.

    Raises:
        DeclarationError: `wait` is out of its range.
    """
    return WaitAndRollBack(wait, cancel_older)


def wait_and_commit(wait: float = 10.0, critical: Critical | None = None) -> WaitAndCommit:
    """Wait for an older event; then commit the later ones that are not critical before it.

    Args:
        wait: seconds.
        critical: a function of (older, later): whether the later event must stay behind the older
            one. It is asked for each pair, and what stays behind holds back what is critical to it
            in turn. By default, the keys that both touch decide.

    Raises:
        DeclarationError: `wait` is out of its range, or `critical` is not a function.
    """
    return WaitAndCommit(wait, critical)


@dataclass(frozen=True, slots=True)
class CommitRules:
    """How events that are handled side by side are begun and committed.

    order: `arrival`: all events commit in the order of arrival; `stream`: those of each stream do,
    and events without a stream at once. start: which event is begun next: the oldest (`arrival`),
    the one that could be begun first (`any`), or the one for which a function gives the smallest
    number. when_older_is_open: what is done when later work is finished and an older event is not.
    within_stream: whether a stream's events run one after the other (`sequence`), each on the
    staged state of the former, or side by side (`parallel`), for handlers without state.
    time_limit: seconds of an attempt, per event; None: without limit. rollbacks: of one event,
    after which the error policy decides. retries: of a failed attempt, before the error policy
    decides; backoff: seconds before the first one, then doubled up to backoff_limit. hurry_after:
    seconds after which a running event that later ones wait for is told so. batch: the most events
    of one grant; batch_of: of one `stream` or of `any`. In the order of arrival, the events of a
    batch are neighbours. upon_staged: whether a stream's next event may run on what the one before
    has staged; else it begins once that is durable. max_events, max_bytes: open, from which on
    intake pauses.
    """

    order: Literal["arrival", "stream"] = "stream"
    start: Literal["arrival", "any"] | Callable[[OpenEvent], float] = "arrival"
    when_older_is_open: WhenOlderIsOpen = field(default_factory=WaitAndRollBack)
    within_stream: Literal["sequence", "parallel"] = "sequence"
    time_limit: float | None = None
    rollbacks: int = 3
    retries: int = 3
    backoff: float = 0.1
    backoff_limit: float = 10.0
    hurry_after: float = 0.1
    batch: int = 1
    batch_of: Literal["stream", "any"] = "stream"
    upon_staged: bool = True
    max_events: int = MAX_EVENTS
    max_bytes: int = MAX_BYTES

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("order", self.order, ("arrival", "stream")),
            ("within_stream", self.within_stream, ("sequence", "parallel")),
            ("batch_of", self.batch_of, ("stream", "any")),
        ):
            if value not in choices:
                raise DeclarationError(f"{name}={value!r}: use {' or '.join(map(repr, choices))}")
        if not callable(self.start) and self.start not in ("arrival", "any"):
            raise DeclarationError(f"start={self.start!r}: use 'arrival', 'any' or a function")
        if not isinstance(self.when_older_is_open, WaitAndRollBack | WaitAndCommit):
            raise DeclarationError(
                f"when_older_is_open={self.when_older_is_open!r}: use wait_and_roll_back(…) or "
                "wait_and_commit(…)"
            )
        if self.time_limit is not None:
            _seconds("time_limit", self.time_limit, zero=False)
        for name, seconds in (
            ("backoff", self.backoff),
            ("backoff_limit", self.backoff_limit),
            ("hurry_after", self.hurry_after),
        ):
            _seconds(name, seconds)
        _count("rollbacks", self.rollbacks, 1, 1_000)
        _count("retries", self.retries, 0, 1_000)
        _count("batch", self.batch, 1, 10_000)
        _count("max_events", self.max_events, 1, 1_000_000)
        _count("max_bytes", self.max_bytes, 1, 1 << 40)
        if self.batch > 1 and self.within_stream == "parallel":
            raise DeclarationError(
                f"batch={self.batch} with within_stream='parallel': the batches of a stream would "
                "wait for each other; use one of the two"
            )

    def delay(self, failures: int) -> float:
        """Seconds before the attempt after failure number `failures`, counted from 1."""
        return min(self.backoff * 2.0 ** min(failures - 1, 64), self.backoff_limit)

    def limit(self, events: int) -> float:
        """Seconds that an attempt at so many events may take."""
        return math.inf if self.time_limit is None else self.time_limit * events
