"""How long a view waits for missing events: for ever, for a time, or until their source answers."""

from dataclasses import dataclass

from topology.declaration.orders import StreamOrder
from topology.declaration.policies.gap_time import GapTime, check_bounds
from topology.declaration.seconds import is_seconds
from topology.model.errors import DeclarationError
from topology.model.printable import printable


@dataclass(frozen=True, slots=True)
class Wait:
    """A gap holds its stream back until the missing events come."""


@dataclass(frozen=True, slots=True)
class Skip:
    """A gap is given up `after` seconds; what comes of it later is late."""

    after: float | GapTime

    @property
    def first(self) -> float:
        """Seconds, as long as nothing is learned."""
        return self.after if isinstance(self.after, float) else self.after.start

    @property
    def least(self) -> float:
        """Seconds that a gap lasts at least before it is given up."""
        return self.after if isinstance(self.after, float) else self.after.at_least

    @property
    def most(self) -> float:
        """Seconds after which a gap is given up in any case."""
        return self.after if isinstance(self.after, float) else self.after.at_most


@dataclass(frozen=True, slots=True)
class Ask:
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


Gap = Wait | Skip | Ask


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
    if isinstance(after, GapTime):
        check_bounds(f"skip(after={printable(repr(after))})", after)
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
