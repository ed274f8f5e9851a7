"""The workers' view task over streams that are sorted, so that nothing needs to be waited for."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from topology.declaration.policies import LateTopic, Spill, Wait
from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.engine.output.handling import Handling
from topology.engine.output.live_cells import CellSource
from topology.engine.output.record_formatter import RecordFormatter
from topology.engine.state.cells import StoredCells
from topology.engine.view_task import ViewTask
from topology.model.changes import Delete, Upsert
from topology.model.event import Event
from topology.model.partition_table import Row
from topology.sequencer.sequencer import LAST, Gap, Ordering, Step

ENOUGH = 1 << 70
"""Slots for any sequences: what is in memory is bounded by who feeds it."""
DRAIN = 1 << 62
"""More than any step releases, in events and in bytes."""


class EmptyTable:
    """What a stream that is done with leaves behind: nothing. Others are in the task's memory."""

    def get(self, key: bytes) -> bytes | None:
        return None

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return iter(())

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        """Nothing is kept."""


Listen = Callable[[Event, list[Upsert | Delete], bytes], None]
"""Takes an event, its row changes as they were yielded, and the value of their output record."""


class _AllCells(StoredCells):
    """The cells of the streams in hand, all in memory, since no table has them as well."""

    def __init__(self) -> None:
        super().__init__(EmptyTable(), lambda stream: 0, atomic=True)

    def age(self) -> None:
        """Nothing is forgotten before its stream is."""

    def drop(self, stream: str) -> None:
        """Forget a stream."""
        self._recent.pop(stream, None)


class _Listening(Handling):
    """Gives row changes to who listens; nobody writes them as records."""

    def __init__(
        self,
        view: View,
        unit: CommitUnit,
        state_of: Callable[[str], bytes | None],
        retried: Mapping[Event, int],
        formatter: RecordFormatter,
        cells: CellSource,
        listen: Listen,
    ) -> None:
        super().__init__(view, unit, state_of, retried, formatter, cells)
        self._listen = listen

    def emit_changes(self, event: Event, changes: list[Upsert | Delete]) -> None:
        _, value, _, _ = self.formatter.record(event, changes, self.unit.now)
        assert value is not None
        self._listen(event, changes, value)


class SortedView(ViewTask):
    """A view's task in which what is missing is known to be missing.

    Sequencer and handling are the workers'; only the policies that are about time and room do not
    hold. gaps: that were given up. listen: gets what handlers say. epoch_of: see `RecordFormatter`.
    """

    def __init__(self, view: View, listen: Listen, epoch_of: Callable[[str], int]) -> None:
        super().__init__(replace(view, gap=Wait(), full=Spill(), late=LateTopic()), EmptyTable())
        self.state.ordering = at_once(self.state.ordering)
        self.state.cells = self._cells = _AllCells()
        self.gaps: list[Gap] = []
        self._listen = listen
        self._formatter = RecordFormatter(view, epoch_of)

    def new_handling(self, unit: CommitUnit) -> Handling:
        state_of, retried = self.state.stream_state, self._retried
        return _Listening(
            self.view, unit, state_of, retried, self._formatter, self._cells, self._listen
        )

    def drop(self, stream: str) -> None:
        """Forget a stream that is done with, or begins again."""
        self.state.drop_cached(stream)
        self._cells.drop(stream)

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
        return self.state.timers.next <= LAST or self.retry_due <= LAST or bool(self.unfinished)


def at_once(ordering: Ordering) -> Ordering:
    """The order, with nothing to be waited for."""
    begins = None if ordering.open_after is None else 0
    return ordering.at_once(size=ENOUGH, drain=DRAIN, portion=DRAIN, open_after=begins)
