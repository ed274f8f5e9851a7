"""Which later events must stay behind an older one: by keys that are declared, or learned."""

from collections.abc import Iterable

from topology.ordered_commit.rules import Critical
from topology.ordered_commit.values import Key, OpenEvent, Touched

RUNS = 20
"""Finished events of a kind, from which on it is taken to be known what the kind touches."""
KINDS = 1_000
"""The most kinds that are learned; all others stay unknown."""
SPACES = 100
"""The most tables and topics of a kind; one that touches more stays unknown."""

OWN = True
"""Stands for the stream of the event itself, in what is learned of its kind."""
_Known = dict[str, set[str | bool | None]]


class _LearnedKind:
    """What events of a kind touch: per place, the own stream, at most one fixed key, or all."""

    __slots__ = ("reads", "runs", "writes")

    def __init__(self) -> None:
        self.runs = 0
        self.reads: _Known = {}
        self.writes: _Known = {}

    def learn(self, stream: str | None, touched: Touched) -> None:
        self.runs += 1
        _generalise(self.reads, stream, touched.reads)
        _generalise(self.writes, stream, touched.writes)
        if len(self.reads) + len(self.writes) > SPACES:
            self.runs = -(1 << 62)  # never known

    def predict(self, stream: str | None) -> Touched | None:
        if self.runs < RUNS:
            return None
        return Touched(_of_stream(self.reads, stream), _of_stream(self.writes, stream))


def _generalise(known: _Known, stream: str | None, keys: Iterable[Key]) -> None:
    for where, which in keys:
        found = known.setdefault(where, set())
        if None in found:
            continue
        if which is not None and which == stream:
            found.add(OWN)
        elif which is None or found - {which, OWN}:
            known[where] = {None}  # it varies by what is in the event
        else:
            found.add(which)


def _of_stream(known: _Known, stream: str | None) -> frozenset[Key]:
    keys = set[Key]()
    for where, found in known.items():
        for which in found:
            keys.add((where, stream if isinstance(which, bool) else which))
    return frozenset(keys)


class LearnedTouches:
    """What each kind of event touches, learned from those that finished."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[str, _LearnedKind] = {}

    def learn(self, event: OpenEvent, touched: Touched) -> None:
        """An event has finished, and touched this."""
        kind = self._kinds.get(event.kind)
        if kind is None:
            if len(self._kinds) >= KINDS:
                return
            kind = self._kinds[event.kind] = _LearnedKind()
        kind.learn(event.stream, touched)

    def predict(self, event: OpenEvent) -> Touched | None:
        """What an event will touch, without executing it; None if that is not known."""
        if event.touches is not None:
            return event.touches
        kind = self._kinds.get(event.kind)
        return None if kind is None else kind.predict(event.stream)


STAYING = 100
"""Events that stay, from which on a function of the user's is not asked: all later is critical."""


class CriticalPairs:
    """The older events that stay, one after the other, and which later ones must stay behind them.

    With a function of the user's, each pair is asked for; a function that raises means critical,
    and so do more than STAYING events. asked: pairs.
    """

    __slots__ = (
        "_all",
        "_critical",
        "_learned",
        "_older",
        "_reads",
        "_streams",
        "_writes",
        "asked",
    )

    def __init__(self, learned: LearnedTouches, critical: Critical | None) -> None:
        self._learned = learned
        self._critical = critical
        self._older: list[tuple[OpenEvent, OpenEvent]] = []
        self._streams: dict[str, OpenEvent] = {}
        self._all: OpenEvent | None = None
        self._reads: dict[Key, OpenEvent] = {}
        self._writes: dict[Key, OpenEvent] = {}
        self.asked = 0

    def stay(self, older: OpenEvent, root: OpenEvent) -> None:
        """This one is not committed before `root`, nor is what is critical to it."""
        if older.stream is not None:
            self._streams.setdefault(older.stream, root)
        if self._critical is not None:
            if len(self._older) < STAYING:
                self._older.append((older, root))
            else:
                self._all = self._all or root
            return
        touched = self._learned.predict(older)
        if touched is None:
            self._all = self._all or root
            return
        for keys, found in ((touched.reads, self._reads), (touched.writes, self._writes)):
            for where, which in keys:
                found.setdefault((where, which), root)
                found.setdefault((where, ANYTHING), root)

    def behind(self, later: OpenEvent, touched: Touched | None) -> OpenEvent | None:
        """The root that this one must stay behind; None if it may go first.

        touched: what it has really read and written.
        """
        if later.stream is not None and later.stream in self._streams:
            return self._streams[later.stream]
        if self._critical is not None:
            found = (root for older, root in self._older if self._asked(older, later))
            return self._all or next(found, None)
        if self._all is not None:
            return self._all
        if touched is None:
            return next(iter((*self._writes.values(), *self._reads.values())), None)
        return _meeting(touched.writes, self._writes, self._reads) or _meeting(
            touched.reads, self._writes
        )

    def _asked(self, older: OpenEvent, later: OpenEvent) -> bool:
        self.asked += 1
        try:
            return bool(self._critical and self._critical(older, later))
        except BaseException:  # nobody cancels a plain function
            return True


ANYTHING = "\0anything"
"""Under this key of a place stands whoever touches anything of it."""


def _meeting(keys: Iterable[Key], *older: dict[Key, OpenEvent]) -> OpenEvent | None:
    for where, which in keys:
        for found in older:
            met = found.get((where, ANYTHING if which is None else which)) or found.get(
                (where, None)
            )
            if met is not None:
                return met
    return None
