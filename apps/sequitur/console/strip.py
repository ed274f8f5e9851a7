"""The sequences of a stream in a view as a strip: what is handled, missing, waiting, late, dead."""

from collections.abc import Iterator
from dataclasses import dataclass

from topology.diagnostics.explain import Account

MOST = 200
"""Segments that are shown, the last ones."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Sequences `first` to `last`, which are all in one state."""

    first: int
    last: int
    state: str

    def __str__(self) -> str:
        ends = f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        return f"{ends} {self.state}"


def strip(account: Account, start: int, step: int = 1) -> list[Segment]:
    """The segments of a stream, in sequence.

    Args:
        account: of the stream in a view.
        start: the first sequence that the view expects of a stream.
        step: from one sequence to the next.
    """
    last = account.place.last
    found, at = list[Segment](), start
    for mark in _joined(sorted(_marks(account), key=lambda one: (one.first, one.last)), step):
        if last is not None and at < mark.first and at <= last:
            found.append(Segment(at, min(last, mark.first - step), "handled"))
        found.append(mark)
        at = max(at, mark.last + step)
    if last is not None and at <= last:
        found.append(Segment(at, last, "handled"))
    return found[-MOST:]


def _marks(account: Account) -> Iterator[Segment]:
    """What is not simply handled, each sequence once, the worse state first."""
    passed, seen = account.passed, set[int]()
    held = "parked" if account.situation in ("parked", "retrying") else "waiting"
    for state, sequences in (
        ("dead", [each.sequence for each in (*passed.ahead, *passed.lost)]),
        ("failed", [each.sequence for each in passed.failed]),
        ("late", list(passed.late)),
        (held, list(account.place.waits)),
        ("coming again", [each.sequence for each in account.context.redelivering]),
    ):
        for each in sequences:
            if each is not None and each not in seen:
                seen.add(each)
                yield Segment(each, each, state)
    yield from (Segment(first, last, "skipped") for first, last in passed.skipped)
    yield from (Segment(each.first, each.last, "missing") for each in account.place.missing)


def _joined(marks: list[Segment], step: int) -> Iterator[Segment]:
    """Neighbours of one state as one."""
    before: Segment | None = None
    for mark in marks:
        if before is not None and before.state == mark.state and mark.first <= before.last + step:
            before = Segment(before.first, max(before.last, mark.last), mark.state)
            continue
        if before is not None:
            yield before
        before = mark
    if before is not None:
        yield before
