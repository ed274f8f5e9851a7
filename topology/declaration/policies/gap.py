"""How long a view waits for missing events: for ever, for a time, or until their source answers."""

from dataclasses import dataclass

from topology.declaration.sequences import Contiguous, Sequence
from topology.model.errors import DeclarationError


@dataclass(frozen=True, slots=True)
class Wait:
    """A gap holds its stream back until the missing events come."""


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The time is learned: of the events that come late, a share of `wrong_skip` is given up.

    start: seconds until enough was seen. at_least, at_most: bounds of the time, in seconds.
    """

    wrong_skip: float = 0.001
    start: float = 30.0
    at_least: float = 1.0
    at_most: float = 600.0


@dataclass(frozen=True, slots=True)
class Skip:
    """A gap is given up `after` seconds; what comes of it later is late."""

    after: float | Adaptive

    @property
    def first(self) -> float:
        """Seconds, as long as nothing is learned."""
        return self.after.start if isinstance(self.after, Adaptive) else self.after

    @property
    def least(self) -> float:
        """Seconds that a gap lasts at least before it is given up."""
        return self.after.at_least if isinstance(self.after, Adaptive) else self.after

    @property
    def most(self) -> float:
        """Seconds after which a gap is given up in any case."""
        return self.after.at_most if isinstance(self.after, Adaptive) else self.after


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


def skip(after: float | Adaptive) -> Skip:
    """Give a gap up `after` seconds from when the first event behind it arrived.

    after: a number of seconds, or `adaptive(…)`.
    """
    if isinstance(after, Adaptive):
        return Skip(after)
    if not _seconds(after):
        raise DeclarationError(
            f"skip(after={after!r}): after must be a number of seconds above 0, or adaptive(…); "
            "to wait for ever, use wait()"
        )
    return Skip(float(after))


def ask(source: str, *, after: float = 1.0, every: float = 10.0) -> Ask:
    """Ask where missing events come from, and skip only what is known never to come.

    source: the topic that a relay fills from its message log. It sends again what it still has; a
    number that is declared void in the log it skips by a command, which the audit topic has.
    after: seconds from when the first event behind the gap arrived. every: seconds until it is
    asked again.
    """
    call = f"ask({source!r}, after={after!r}, every={every!r})"
    if not isinstance(source, str) or not source:
        raise DeclarationError(f"{call}: name the topic that is filled by a relay")
    if not _seconds(after) or not _seconds(every):
        raise DeclarationError(f"{call}: after and every must be numbers of seconds above 0")
    return Ask(source, float(after), float(every))


def check_ask(view: str, gap: Gap, sequence: Sequence, lane: object) -> None:
    """Whether a relay can know what the view misses. Raises DeclarationError."""
    if not isinstance(gap, Ask):
        return
    if not isinstance(sequence, Contiguous) or (sequence.start, sequence.step) != (1, 1):
        raise DeclarationError(
            f"view {view!r}: gap=ask({gap.source!r}), but its source does not count 1, 2, 3, … as "
            "a message log does; use contiguous(), or another gap policy"
        )
    if lane is not None:
        raise DeclarationError(
            f"view {view!r}: gap=ask({gap.source!r}), but its lanes count for themselves, and a "
            "message log knows of streams only; leave lane out, or use another gap policy"
        )


def adaptive(
    wrong_skip: float = 0.001,
    *,
    start: float = 30.0,
    at_least: float = 1.0,
    at_most: float = 600.0,
) -> Adaptive:
    """Learn from the lateness that shows when to give a gap up.

    wrong_skip: of the events that come late, the share that may be given up (0.001 is one in a
    thousand). start: seconds to wait until enough was seen to tell, 3 / wrong_skip late events.
    at_least, at_most: seconds that the time stays between.
    """
    call = f"adaptive(wrong_skip={wrong_skip!r})"
    number = isinstance(wrong_skip, int | float) and not isinstance(wrong_skip, bool)
    if not number or not 1e-6 <= wrong_skip <= 0.5:
        raise DeclarationError(f"{call}: wrong_skip must be a share from 0.000001 to 0.5")
    for name, value in (("start", start), ("at_least", at_least), ("at_most", at_most)):
        if not _seconds(value):
            raise DeclarationError(f"{call}: {name}={value!r} must be a number of seconds above 0")
    if not at_least <= start <= at_most:
        raise DeclarationError(
            f"{call}: start={start:g} must lie between at_least={at_least:g} and "
            f"at_most={at_most:g}"
        )
    return Adaptive(float(wrong_skip), float(start), float(at_least), float(at_most))


def _seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e10
