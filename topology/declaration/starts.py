"""Where a stream begins in a view, and where it ends."""

import functools
import math
from collections.abc import AsyncIterator, Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from topology.declaration.seconds import is_seconds
from topology.model.changes import acollected, collected, each_of
from topology.model.errors import DeclarationError


class Start:
    """Where a stream begins: each is a frozen dataclass derived from it."""

    __slots__ = ()

    @property
    def open_after(self) -> int | None:
        """How long a new stream waits before it begins with the lowest event (ms), None if not."""
        return None

    @property
    def opens(self) -> frozenset[str]:
        """The kinds that begin a stream, if only they do."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class First(Start):
    """A stream begins with the source's first event of it."""

    def __str__(self) -> str:
        return "first()"


@dataclass(frozen=True, slots=True)
class EarliestSeen(Start):
    """A stream begins with the lowest event that came within `after` seconds."""

    after: float

    @property
    def open_after(self) -> int:
        return math.ceil(self.after * 1000)

    def __str__(self) -> str:
        return f"earliest_seen(after={self.after:g})"


@dataclass(frozen=True, slots=True)
class OpenedBy(Start):
    """A stream begins with an event of one of these kinds; what waits below it is late."""

    kinds: tuple[str, ...]

    @property
    def opens(self) -> frozenset[str]:
        return frozenset(self.kinds)

    def __str__(self) -> str:
        return f"opened_by({_listed(self.kinds)})"


Reopen = Literal["late", "start"]


@dataclass(frozen=True, slots=True)
class Closing:
    """An event of one of these kinds closes its stream, whose rows go `retention` seconds later."""

    kinds: tuple[str, ...]
    retention: float
    reopen: Reopen

    def __str__(self) -> str:
        kinds = _listed(self.kinds)
        return f"closes {kinds}, retention {self.retention:g}, reopen {self.reopen}"


def _listed(kinds: tuple[str, ...]) -> str:
    return ", ".join(map(repr, kinds))


def first() -> First:
    """Begin with the source's start: the first number, the event without a predecessor."""
    return First()


def earliest_seen(after: float) -> EarliestSeen:
    """Begin a stream that is joined midway with the lowest sequence that came.

    Args:
        after: seconds to wait for it, from the stream's first arrival.

    Raises:
        DeclarationError: `after` is no such number.
    """
    if not is_seconds(after):
        raise DeclarationError(
            f"earliest_seen(after={after!r}): after must be a number of seconds above 0: how long "
            "a lower event may take"
        )
    return EarliestSeen(float(after))


def opened_by(*kinds: str) -> OpenedBy:
    """Begin a stream with the first event of one of these kinds; events below it are late.

    Args:
        kinds: the kinds, at least one.

    Raises:
        DeclarationError: no kind is given, or one is no text.
    """
    return OpenedBy(checked_kinds("opened_by", kinds))


def checked_kinds(what: str, kinds: Iterable[str]) -> tuple[str, ...]:
    """The kinds, at least one. Raises DeclarationError."""
    found = tuple(kinds) if isinstance(kinds, Iterable) else (kinds,)
    if not found or not all(isinstance(kind, str) and kind for kind in found):
        given = found if isinstance(kinds, Iterable) else kinds
        raise DeclarationError(f"{what}{given!r}: name the kinds as texts, as in 'Placed'")
    return tuple(dict.fromkeys(found))


def checked_closing(
    view: str,
    closes: str | Iterable[str] | None,
    retention: float | None,
    reopen: Reopen,
    accepts: frozenset[str] | None,
) -> Closing | None:
    """A view's `closes=`, `retention=` and `reopen=`. Raises DeclarationError."""
    if reopen not in ("late", "start"):
        raise DeclarationError(f"view {view!r}: reopen={reopen!r}; use 'late' or 'start'")
    if closes is None:
        if retention is not None or reopen != "late":
            raise DeclarationError(
                f"view {view!r}: retention and reopen go with closes=…, the kind that closes a "
                "stream; add it"
            )
        return None
    kinds = checked_kinds(
        f"view {view!r}: closes=", (closes,) if isinstance(closes, str) else closes
    )
    if not is_seconds(retention):
        raise DeclarationError(
            f"view {view!r}: retention={retention!r}; say for how many seconds above 0 a closed "
            "stream is remembered, so that copies of its events are known as such"
        )
    missing = [kind for kind in kinds if accepts is not None and kind not in accepts]
    if missing:
        raise DeclarationError(
            f"view {view!r}: it is closed by {missing[0]!r}, which it does not accept; "
            "add it to accepts"
        )
    return Closing(kinds, float(retention), reopen)


def ending(handler: Any, kinds: Iterable[str], is_async: bool) -> Any:
    """A handler with state that leaves none behind its stream's closing event."""
    ends = frozenset(kinds)

    def clear(states: Iterable[Any]) -> None:
        for each in states:
            each.clear()

    # What it yields may have the state in it, and is written when that has ended.
    @functools.wraps(handler)
    def run(event: Any, *states: Any) -> Any:
        items = handler(event, *states)
        if event.kind in ends:
            items = collected(map(deepcopy, each_of(items or ())))
            clear(states)
        return items

    async def copies(items: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for item in items:
            yield deepcopy(item)

    @functools.wraps(handler)
    async def arun(event: Any, *states: Any) -> list[Any]:
        result, closes = handler(event, *states), event.kind in ends
        if hasattr(result, "__aiter__"):
            items = await acollected(copies(result) if closes else result)
        else:
            items = collected(await result or ())
            items = deepcopy(items) if closes else items
        if closes:
            clear(states)
        return items

    return arun if is_async else run
