"""The workers' view task over streams that are sorted, so that nothing needs to be waited for."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from topology.changes import Delete, Emit, Upsert
from topology.event import Event
from topology.policies import LateTopic, Spill, Wait
from topology.sequencer import LAST, Gap, Ordering, Step
from topology.store import Row
from topology.unit import CommitUnit, Out
from topology.view import View
from topology.view_task import ViewTask

ENOUGH = 1 << 70
"""Slots for any sequences: what is in memory is bounded by who feeds it."""
DRAIN = 1 << 62
"""More than any step releases."""


class EmptyTable:
    """What a stream that is done with leaves behind: nothing. Others are in the task's memory."""

    def get(self, key: bytes) -> bytes | None:
        return None

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        """Nothing is kept."""


Said = tuple[str, int, list[Upsert | Delete], bytes]
"""(stream, sequence, row changes as they were yielded, the output's value)."""


class _Listening:
    """Mixed into a view's handling: also keeps what was yielded, so that it need not be decoded."""

    said: list[Said]
    outputs: list[Out]

    def write(self, event: Event, items: Iterable[Any]) -> None:
        items = list(items)
        before = len(self.outputs)
        super().write(event, items)  # type: ignore[misc]
        if len(self.outputs) > before:
            value = self.outputs[-1][1]
            changes = [item for item in items if item.__class__ is not Emit]
            self.said.append((event.stream, event.sequence, changes, value or b""))


class SortedView(ViewTask):
    """A view's task in which what is missing is known to be missing.

    Sequencer and handling are the workers'; only the policies that are about time and room do not
    hold. gaps: that were given up. said: the outputs.
    """

    def __init__(self, view: View) -> None:
        super().__init__(replace(view, gap=Wait(), full=Spill(), late=LateTopic()), EmptyTable())
        self.ordering = at_once(self.ordering)
        self.gaps: list[Gap] = []
        self.said: list[Said] = []
        handling = type("Listening", (_Listening, self._handling), {"said": self.said})
        self._handling = handling

    def order(
        self,
        events: list[Event],
        unit: CommitUnit,
        horizon: int | None,
        back: Sequence[Event] = (),
    ) -> Step:
        result = super().order(events, unit, horizon, back)
        self.gaps += result.skipped
        return result

    @property
    def can_fire(self) -> bool:
        """Whether a gap or a retry is to be seen to."""
        return self.timers.next <= LAST or self.retry_due <= LAST or bool(self.unfinished)


def at_once(ordering: Ordering) -> Ordering:
    """The order, with nothing to be waited for."""
    return replace(
        ordering,
        size=ENOUGH,
        drain=DRAIN,
        skip_after=0,
        settle=0,
        open_after=None if ordering.open_after is None else 0,
        full="spill",
        learn=False,
    )
