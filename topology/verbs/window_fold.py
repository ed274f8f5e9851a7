"""One stream's windows: what each event changes in them. Pure: state in, state and results out.

The state is a dictionary that JSON can write: `clock`, the latest time that the stream has reached
(ms), `last`, the sequence of its last event, `missing`, how many were given up that no
window has yet, `gone`, the end of the last session that is kept no more, and `windows`, start →
[end, aggregate, missing].
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from topology.verbs.aggregates import Aggregate
from topology.verbs.windows import Windows

R = TypeVar("R")

EVER = 2**62
"""The end of what no time ends."""


@dataclass(slots=True)
class Folded(Generic[R]):
    """A window as an event leaves it.

    start, end: ms since 1970; the end of a session moves with it. value: the aggregate's result,
    None where the window is gone: a session that became part of another one, or begins earlier now.
    final: whether the stream has passed it. missing: how many events were given up before those
    that are in it.
    """

    start: int
    end: int
    value: R | None
    final: bool
    missing: int
    gone: bool = False


@dataclass(frozen=True, slots=True)
class WindowFold:
    """How a stream's events change its windows.

    windows: None for one that lasts as long as the stream. keep: ms for which a window that is
    final may still be revised. step: between neighbouring sequences. first: the sequence before the
    first, None where streams may begin anywhere. counts: whether sequences are numbers that count.
    """

    windows: Windows | None
    aggregate: Aggregate[Any, Any, Any]
    keep: int = 0
    step: int = 1
    first: int | None = None
    counts: bool = True

    def take(
        self, state: dict[str, Any], sequence: int, time: int, values: Iterable[Any], closes: bool
    ) -> tuple[list[Folded[Any]], str | None, list[str]]:
        """Take one event over into the state.

        time: of the event. values: what the verbs before have left of it, none or more. closes:
        whether it ends its stream.

        Returns:
            The windows that it changes, or makes final; the start of one that was there too long
            ago to be revised, in ms, if the event belongs to such a one; and the starts of those
            that are kept no more from now on.
        """
        windows: dict[str, list[Any]] = state.setdefault("windows", {})
        before: int = state.get("clock", -EVER)
        missing: int = state.pop("missing", 0)
        if self.counts:
            missing += missing_before(state, sequence, self.step, self.first)
        if values.__class__ is not tuple:
            values = tuple(values)
        changed: dict[str, None] = {}
        gone: list[Folded[Any]] = []
        beyond: str | None = None
        split, aggregate, keep = self.windows, self.aggregate, self.keep
        merging = split is not None and split.merging
        takers: Iterable[tuple[int, int]] = ()
        if split is None:
            takers = ((0, EVER),)
        elif not merging:
            if values or missing:
                takers = split.of(time)
        elif values:
            takers = split.of(time)
            if time < state.get("gone", -EVER):
                # It might have been in a session that is kept no more.
                takers, beyond = (), str(time)
        elif missing and windows:
            # What the verbs have left out makes no session, and makes none longer.
            near = max([*_touching(windows, time, time + 1)] or map(int, windows))
            takers = ((near, windows[str(near)][0]),)
        for start, end in takers:
            if merging and values:
                start, end, merged = self._merge(windows, start, end)
                gone += merged
            key = str(start)
            if key not in windows:
                if end + keep <= before:
                    beyond = (beyond or key) if values else None
                    continue
                windows[key] = [end, aggregate.start(), 0]
            window = windows[key]
            for value in values:
                window[1] = aggregate.add(window[1], value)
            window[2] += missing
            changed[key] = None
        if missing and not changed:
            state["missing"] = missing  # the next window that is kept has them
        clock = state["clock"] = time if time > before else before
        reached, over = EVER if closes else clock, list[str]()
        if reached > before:
            for key, window in windows.items():
                end = window[0]
                if before < end <= reached:
                    changed[key] = None
                if end + keep <= clock:
                    over.append(key)
        rows: list[Folded[Any]] = []
        for key in changed if len(changed) < 2 else sorted(changed, key=int):
            end, kept, lost = windows[key]
            rows.append(Folded(int(key), end, aggregate.result(kept), end <= reached, lost))
        if clock <= before:
            over = []
        for key in over:
            if merging:
                state["gone"] = max(state.get("gone", -EVER), windows[key][0])
            del windows[key]
        if gone:
            stay = {row.start for row in rows}
            rows = [*(each for each in gone if each.start not in stay), *rows]
        return rows, beyond, over

    def rows(self, state: dict[str, Any]) -> list[Folded[Any]]:
        """The windows that are kept, the earliest first."""
        clock = state.get("clock", -EVER)
        return [
            Folded(int(key), end, self.aggregate.result(kept), end <= clock, lost)
            for key, (end, kept, lost) in sorted(
                state.get("windows", {}).items(), key=lambda each: int(each[0])
            )
        ]

    def _merge(
        self, windows: dict[str, list[Any]], start: int, end: int
    ) -> tuple[int, int, list[Folded[Any]]]:
        """Make one window of all sessions that this one touches: (start, end, those that go)."""
        touching = sorted(_touching(windows, start, end))
        if not touching:
            return start, end, []
        gone: list[Folded[Any]] = []
        whole: list[Any] | None = None
        merge = self.aggregate.merge
        assert merge is not None
        for other in touching:
            found = windows.pop(str(other))
            gone.append(Folded(other, found[0], None, False, 0, gone=True))
            whole = (
                found
                if whole is None
                else [max(whole[0], found[0]), merge(whole[1], found[1]), whole[2] + found[2]]
            )
        assert whole is not None
        start, whole[0] = min(start, touching[0]), max(end, whole[0])
        windows[str(start)] = whole
        return start, whole[0], gone


def missing_before(state: dict[str, Any], sequence: int, step: int, first: int | None) -> int:
    """How many events are missing between the last one of a stream and this, which is the last now.

    step, first: as in `WindowFold`.
    """
    last = state.get("last", first)
    state["last"] = sequence
    return 0 if last is None else max(0, (sequence - last) // step - 1)


def _touching(windows: dict[str, list[Any]], start: int, end: int) -> Iterator[int]:
    for key, (other_end, *_) in windows.items():
        if int(key) < end and start < other_end:
            yield int(key)
