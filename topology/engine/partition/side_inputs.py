"""What a view reads beside its input: events that come again, and what operators tell it."""

from collections.abc import Awaitable, Callable, Sequence

from topology.engine.partition.pending_redelivery import RedeliveryQueue
from topology.engine.partition.ports import PartitionReader
from topology.engine.view_task import ViewTask
from topology.model.event import Message

EVERY = 0.1
"""Seconds between two looks at the topics."""
MANY = 500
"""Events that came again at once behind which more are expected."""
COMMANDS = 10_000
"""Commands that are carried out at once at most."""
SOON = 0.02
"""Seconds that are waited for these."""


class SideInputs:
    """The view's partition of its redelivery and commands topics; what was read and not taken yet.

    The view's own positions say from where, so that what is taken is taken once.

    Args:
        task: The view's task in this partition.
        redeliveries: Reads the partition of the redelivery topic.
        commands: Reads the partition of the commands topic.
        written: () → the offset behind all of the redelivery topic's partition, in transactions
            that do not show yet too.
        monotonic: () → seconds, of a clock that nobody sets.
    """

    def __init__(
        self,
        task: ViewTask,
        redeliveries: PartitionReader,
        commands: PartitionReader,
        written: Callable[[], Awaitable[int]],
        monotonic: Callable[[], float],
    ) -> None:
        positions = task.state.positions
        self._task = task
        self._commands_reader = commands
        self._redelivery_reader = redeliveries
        self._written = written
        self._monotonic = monotonic
        self._commands: list[Message] = []
        self._away = RedeliveryQueue(task)
        self._more = False
        self._lost = 0
        self._expected: tuple[int, int] | None = None
        self._polled = 0.0
        commands.seek(positions.commands)
        # A view that redelivers no longer has to take back what went before, and what operators
        # redrive comes this way to any view.
        redeliveries.seek(positions.redelivered)

    async def poll(self, wall: int) -> None:
        """Read what there is, now and then. wall: the wall clock (ms)."""
        now = self._monotonic()
        if now - self._polled < EVERY and not self._more:
            return
        self._polled = now
        if not self._commands:
            self._commands = list(await self._commands_reader.fetch(0))
            if self._commands:
                await self._read_all_commands()
        if self._away.room:
            reader = self._redelivery_reader
            records = await reader.fetch(SOON if self._more else 0.0)
            at = records[0].offset if records else await reader.position()
            if at < self._away.end:
                self._begin_anew()
            self._away.read(records, wall)
            self._more = False
            self._lost = 0 if records else await self._count_lost()

    def _begin_anew(self) -> None:
        """The topic was made anew: its offsets are those of other records than were read."""
        positions = self._task.state.positions
        positions.redelivered = positions.ahead = 0
        self._away, self._expected = RedeliveryQueue(self._task), None

    async def _count_lost(self) -> int:
        """How many events went away, and are neither here nor in the rest of the topic."""
        lost = self._task.state.counts.redelivering - len(self._away)
        if lost <= 0 or await self._redelivery_reader.position() < await self._written():
            return 0
        return lost

    async def _read_all_commands(self) -> None:
        """Read all commands that are there: one may cancel another."""
        end = await self._commands_reader.end()
        while len(self._commands) < COMMANDS:
            if await self._commands_reader.position() >= end:
                return
            self._commands += await self._commands_reader.fetch(EVERY)

    def next_redelivery(self, wall: int) -> float:
        """When the next event is to come again (ms), infinite if none is known."""
        return 0.0 if self._more else self._away.next(wall)

    @property
    def expecting(self) -> bool:
        """Whether something is waited for; see `expect_redeliveries`."""
        return self._expected is not None

    async def expect_redeliveries(self, watermark: int) -> None:
        """Gaps are due, and all that arrived by `watermark` (ms) is read: note what is away.

        What is missing may be among that. If it is, it fits into the ring when it comes: that was
        around it already when the gap began.
        """
        if self._expected is None:
            self._expected = watermark, await self._written()

    async def redeliveries_drained(self) -> int | None:
        """The watermark that was expected, once all that was away then has come again, else None.

        Only then may gaps be given up. What has no room goes away again, behind that: it is not
        waited for, or there would be no end where more is away than comes again in a delay.
        """
        if self._expected is None:
            return None
        watermark, end = self._expected
        position = self._away.first
        if not self._away:
            position = await self._redelivery_reader.position()
        if position < end:
            return None
        self._expected = None
        return watermark

    def take_redeliveries(self, now: int) -> Sequence[Message]:
        """Take the records of events that are to come again by `now` (ms)."""
        found = self._away.take(now)
        self._more = len(found) >= MANY and not self._away
        return found

    def take_lost(self) -> int:
        """Take how many events will not come again, as their records are gone."""
        found, self._lost = self._lost, 0
        return found

    def take_commands(self) -> Sequence[Message]:
        """Take the records of commands."""
        found, self._commands = self._commands, []
        return found

    def stop(self) -> None:
        """Read no more."""
        self._commands_reader.pause()
        self._redelivery_reader.pause()
