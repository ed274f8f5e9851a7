"""How long a view waits for missing events: for ever, for a time, or until their source answers."""

import math
from dataclasses import dataclass
from typing import ClassVar

from topology.declaration.orders import StreamOrder
from topology.declaration.policies.gap_time import GapTime, check_bounds
from topology.declaration.policies.policy import Policy
from topology.declaration.seconds import is_seconds
from topology.model.errors import DeclarationError
from topology.model.names import checked_topic, plain_function
from topology.model.printable import printable


class Gap(Policy):
    """How long a gap holds its stream back."""

    __slots__ = ()
    choices = "wait(), skip(after=…) or ask(topic)"

    skips: ClassVar[bool] = False
    """Whether a gap is given up after a time."""

    @property
    def first(self) -> float:
        """Seconds that a gap lasts before it is given up, as long as nothing is learned."""
        return math.inf

    @property
    def least(self) -> float:
        """Seconds that it lasts at least."""
        return math.inf

    @property
    def most(self) -> float:
        """Seconds after which it is given up in any case."""
        return math.inf

    @property
    def adaptive(self) -> GapTime | None:
        """How the view learns when to give a gap up, None if it does not."""
        return None


@dataclass(frozen=True, slots=True)
class Wait(Gap):
    """A gap holds its stream back until the missing events come."""


@dataclass(frozen=True, slots=True)
class Skip(Gap):
    """A gap is given up `after` seconds; what comes of it later is late."""

    after: float | GapTime
    skips: ClassVar[bool] = True

    @property
    def adaptive(self) -> GapTime | None:
        return None if isinstance(self.after, float) else self.after

    @property
    def more_than_a_stream(self) -> str:
        if self.adaptive is None:
            return ""
        return "it learns from all streams; give the seconds, as in skip(after=30)"

    @property
    def first(self) -> float:
        return self.after if isinstance(self.after, float) else self.after.start

    @property
    def least(self) -> float:
        return self.after if isinstance(self.after, float) else self.after.at_least

    @property
    def most(self) -> float:
        return self.after if isinstance(self.after, float) else self.after.at_most


@dataclass(frozen=True, slots=True)
class Ask(Gap):
    """A gap is waited for; its source is asked for it `after` seconds, and again `every` seconds.

    source: the topic whose relay is asked.
    """

    source: str
    after: float
    every: float

    @property
    def topic(self) -> str:
        """Where requests go: the relay of the topic reads them."""
        return f"{self.source}.resend"


def wait() -> Wait:
    """Wait for missing events for as long as it takes."""
    return Wait()


def skip(after: float | GapTime) -> Skip:
    """Give a gap up `after` seconds from when the first event behind it arrived.

    Args:
        after: a number of seconds; `adaptive(…)`; or a `GapTime` of yours.

    Raises:
        DeclarationError: `after` is none of these.
    """
    if isinstance(after, GapTime) and not isinstance(after, type):
        call = f"skip(after={printable(repr(after))})"
        check_bounds(call, after)
        plain_function(f"{call}: its method after", after.after, "latenesses")
        return Skip(after)
    if not is_seconds(after):
        raise DeclarationError(
            f"skip(after={after!r}): after must be a number of seconds above 0, or adaptive(…); "
            "to wait for ever, use wait()"
        )
    return Skip(float(after))


def ask(source: str, *, after: float = 1.0, every: float = 10.0) -> Ask:
    """Ask the source of a gap to send again, and skip only what it declares void.

    The relay of the topic sends what its message log still has. A number that the log has as void
    is skipped by a command, which the audit topic records.

    Args:
        source: the topic that a relay fills from its message log.
        after: seconds from when the first event behind the gap arrived until the relay is asked.
        every: seconds until the relay is asked again.

    Raises:
        DeclarationError: a value is wrong.
    """
    call = f"ask({source!r}, after={after!r}, every={every!r})"
    if not isinstance(source, str) or not source:
        raise DeclarationError(f"{call}: name the topic that is filled by a relay")
    checked_topic(f"{source}.resend")
    if not is_seconds(after) or not is_seconds(every):
        raise DeclarationError(f"{call}: after and every must be numbers of seconds above 0")
    return Ask(source, float(after), float(every))


def check_ask(view: str, gap: Gap, sequence: StreamOrder, lane: object) -> None:
    """Whether a relay can know what the view misses. Raises DeclarationError."""
    if not isinstance(gap, Ask):
        return
    if not sequence.counts or (sequence.start, sequence.step) != (1, 1):
        raise DeclarationError(
            f"view {view!r}: gap=ask({gap.source!r}), but its source does not count 1, 2, 3, … as "
            "a message log does; use contiguous(), or another gap policy"
        )
    if lane is not None:
        raise DeclarationError(
            f"view {view!r}: gap=ask({gap.source!r}), but its lanes count for themselves, and a "
            "message log knows of streams only; leave lane out, or use another gap policy"
        )
