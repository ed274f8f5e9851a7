"""One input partition: fetch a batch, run a step, commit the unit, again."""

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from topology.engine.commit_unit import CommitUnit
from topology.engine.partition.ports import Clock, PartitionReader
from topology.engine.partition.steps import Step
from topology.engine.partition.view import PartitionView
from topology.model.event import Message

T = TypeVar("T")

IDLE = 0.5
"""Seconds that a fetch waits for records before timers are looked at."""
FAR = 100
"""Offsets without a record that are more than the markers between two transactions."""


class Host(Protocol):
    """The runtime that a partition runs in: a Faust worker, or the simulator."""

    async def commit(self, unit: CommitUnit) -> None:
        """Make a unit durable: outputs, changelog rows and offset, and then the tables."""

    async def sleep(self, seconds: float) -> None:
        """Wait while a partition whose views are halted reads nothing."""

    def caught_up(self) -> bool:
        """Whether the partition ends here, since another one goes on with its view."""

    def log_truncated(self, position: int, first: int) -> None:
        """The partition was read up to `position`, and is now read from `first` on, before that."""

    async def jumped(self, position: int, first: int) -> None:
        """The partition was read up to `position`, and nothing came before `first`: there may be
        nothing, or it may have been deleted before it was read."""


@dataclass(frozen=True, slots=True)
class JoiningView:
    """A view that has processed all before `offset` by itself, and nothing behind it."""

    view: PartitionView
    offset: int


class PartitionLoop:
    """Runs one partition until it is told to stop, or fails.

    Args:
        step: What is done with a batch.
        reader: Reads the input partition.
        host: Makes units durable.
        clock: The wall clock.
        start: The input offset to start at: all before it is durable.
        committed: The offset that is committed where it is not the start, as messages were deleted
            before they were read: the start is committed then even if nothing comes.

    Attributes:
        position: The offset behind what is read and in hand.
        committed: The offset behind what is durable, and in the tables.
        stopping: Set it to end the loop after the step in hand.
        waiting: Whether no step is in hand.
    """

    def __init__(
        self,
        step: Step,
        reader: PartitionReader,
        host: Host,
        clock: Clock,
        start: int,
        committed: int | None = None,
    ) -> None:
        self.step = step
        self.position = start
        self.stopping = False
        self.waiting = False
        self._reader = reader
        self._host = host
        self._clock = clock
        self.committed = start if committed is None else committed
        self._joining: list[JoiningView] = []

    async def run(self) -> None:
        """Read, step and commit, until `stopping` is set or the view joins the others."""
        reader, step, reads, far = self._reader, self.step, True, FAR
        reader.seek(self.position)
        while not self.stopping:
            await step.poll_side_inputs()
            if (unit := await step.next_command_unit()) is not None:
                await self._commit(unit)
                continue
            if step.halted:
                reader.pause()
                reads = False
                await self._rest(self._host.sleep(IDLE))
                continue
            if not reads:
                reader.seek(self.position)
                reads, far = True, 1
            if step.unfinished:
                await self._commit(await step.take([]))
                continue
            idle = 0.0
            if not step.has_urgent_work:
                idle = max(0.0, min(IDLE, (step.due - self._clock()) / 1000))
            before = self.position
            records = await self._rest(reader.fetch(idle))
            if records:
                self.position = records[-1].offset + 1
            for part in self._parts(records):
                await self._commit(await step.take(part))
            # Transaction markers take offsets too, and bring no records.
            self.position = position = await reader.position()
            if (again := records[0].offset if records else position) < before:
                self._host.log_truncated(before, again)
            elif again - before >= far:
                await self._host.jumped(before, again)
            if records or again != before:
                far = FAR
            self._admit(position)
            unit = await step.fire(position)
            if step.has_unsaved_progress or (position > self.committed and not records):
                # The committed offset follows the position, so that a partition that is read to
                # its end also looks so; and so does a view's row that says how it reads.
                unit = step.move(position, unit)
            if unit is not None:
                await self._commit(unit)
            if self._host.caught_up():
                break

    async def _rest(self, waiting: Awaitable[T]) -> T:
        """Wait for something with no step in hand."""
        self.waiting = True
        try:
            return await waiting
        finally:
            self.waiting = False

    def join(self, joining: JoiningView) -> bool:
        """Take a view in that is done with all before an offset; False if that is read already."""
        if self.stopping or joining.offset < self.position:
            return False
        self._joining.append(joining)
        return True

    def _parts(self, records: Sequence[Message]) -> Iterator[Sequence[Message]]:
        """The batch, split where a view joins; the view is taken in between."""
        while records:
            self._admit(records[0].offset)
            ahead = min((j.offset for j in self._joining), default=None)
            if ahead is None or records[-1].offset < ahead:
                yield records
                return
            at = next(i for i, record in enumerate(records) if record.offset >= ahead)
            yield records[:at]
            records = records[at:]

    def _admit(self, position: int) -> None:
        """Take in the views that have read all before `position`, as this loop has."""
        for joining in [j for j in self._joining if j.offset <= position]:
            self._joining.remove(joining)
            self.step.admit(joining.view)

    async def _commit(self, unit: CommitUnit) -> None:
        if unit:
            await self._host.commit(unit)
            if unit.next_offset is not None:
                self.committed = unit.next_offset
            self.step.committed()
