"""What a partition does with a batch: re-key it, or order and handle it."""

from collections.abc import Sequence

from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import encode_intake
from topology.engine.partition.ports import Clock, Dispatch
from topology.engine.partition.view import PartitionView
from topology.engine.route_task import RouteTask
from topology.engine.stream_task import RekeyTask
from topology.model.event import Message
from topology.model.partition_table import PartitionTable

INFINITE = float("inf")


class Step:
    """What a partition does with a batch: make it a commit unit. Subclasses know the task."""

    halted = False
    """Whether it takes no records."""
    unfinished = False
    """Whether a step has to follow before more records are taken."""
    has_urgent_work = False
    """Whether something is to be done soon, so that no fetch should wait for records."""
    has_unsaved_progress = False
    """Whether something is to be made durable, though nothing came."""
    due = INFINITE
    """When something is to be done without new records (ms), infinite if nothing is."""

    def table(self, name: str) -> PartitionTable:
        """Where a unit's rows of that name go."""
        raise NotImplementedError

    async def take(self, records: Sequence[Message]) -> CommitUnit:
        """The unit of a batch."""
        raise NotImplementedError

    def move(self, position: int, unit: CommitUnit | None) -> CommitUnit:
        """The unit that also says that all before `position` is read."""
        raise NotImplementedError

    async def fire(self, position: int) -> CommitUnit | None:
        """The unit of what is due, gaps included if they may be given up at this position."""
        return None

    async def poll_side_inputs(self) -> None:
        """Read what there is beside the input, now and then."""

    async def next_command_unit(self) -> CommitUnit | None:
        """The unit of what operators told a view since, or of streams that are rebuilt."""
        return None

    def committed(self) -> None:
        """The last unit is durable."""

    def admit(self, view: PartitionView) -> None:
        """Take in a view that has read as far by itself."""
        raise NotImplementedError

    def last_unit(self) -> CommitUnit | None:
        """The unit of what would have to be read again, where the partition ends in order."""
        return None

    def stop(self) -> None:
        """End what runs in the background."""


class RekeyStep(Step):
    """Re-keys a source topic's partition, by way of the source's agent."""

    def __init__(
        self, place: tuple[str, int], task: RekeyTask, dispatch: Dispatch, clock: Clock
    ) -> None:
        self.task = task
        self._place = place
        self._dispatch = dispatch
        self._clock = clock

    async def take(self, records: Sequence[Message]) -> CommitUnit:
        made: list[CommitUnit] = []

        async def work() -> None:
            made.append(self.task.process(records, self._clock()))

        await self._dispatch(work)
        return made[0]

    def move(self, position: int, unit: CommitUnit | None) -> CommitUnit:
        unit = CommitUnit(*self._place) if unit is None else unit
        unit.next_offset, unit.intake = position, encode_intake(self.task.intake)
        return unit


class RouteStep(Step):
    """Routes a topic's partition."""

    def __init__(self, place: tuple[str, int], task: RouteTask, clock: Clock) -> None:
        self.task = task
        self._place = place
        self._clock = clock

    @property
    def has_urgent_work(self) -> bool:  # type: ignore[override]
        return self.task.parked is not None and bool(self.task.parked.releasing)

    def table(self, name: str) -> PartitionTable:
        assert self.task.parked is not None
        return self.task.parked.table

    async def take(self, records: Sequence[Message]) -> CommitUnit:
        return self.task.process(records, self._clock())

    def move(self, position: int, unit: CommitUnit | None) -> CommitUnit:
        unit = CommitUnit(*self._place) if unit is None else unit
        unit.next_offset, unit.intake = position, encode_intake(self.task.intake)
        return unit

    async def fire(self, position: int) -> CommitUnit | None:
        unit = self.task.release(self._place, self._clock())
        return None if unit is None else self.move(position, unit)
