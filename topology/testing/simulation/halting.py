"""Views that operators halt and resume in a simulation: they leave the others, and come back.

What `topology.faust.worker.stream_partition` does with runners of their own, one runner does
here in turn.
"""

from collections.abc import Callable
from typing import ClassVar

from topology.engine.commands.execute import Command, encode_command
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition import PartitionView, Step, StreamStep
from topology.engine.stream_task import StreamTask
from topology.engine.view_task import ViewTask
from topology.testing.simulation.faults import FAULTS
from topology.testing.simulation.ports import in_turn, record
from topology.testing.simulation.runner import PartitionRunner
from topology.testing.simulation.schedule import Schedule


class ObeyingRunner(PartitionRunner):
    """Carries out what the views' commands topics say. apart: view → the step of its own."""

    apart: dict[str, StreamStep]

    def make_step(self) -> Step:
        self.apart = {}
        if self.task is None:
            return super().make_step()
        step, task = self.stream_step(self.task), self.task
        for name, view in list(task.views.items()):
            at, opened = view.state.positions.input, self.opened(view)
            if at is None or (view.halted is None and at == task.position):
                step.admit(opened)
            else:
                del task.views[name]
                self.leaves(opened)
        return step

    def stream_step(self, task: StreamTask) -> StreamStep:
        return _ObeyingStep(self, task)

    def drop(self) -> None:
        super().drop()
        self.apart = {}

    @property
    def busy(self) -> bool:
        return super().busy or any(map(self._commands, self._all_views()))

    @property
    def rebuilds(self) -> bool:
        return any(view.rebuilds for view in self._all_views())

    def leaves(self, view: PartitionView) -> None:
        """A view that was halted reads by itself from now on."""
        at = view.task.state.positions.input
        assert at is not None
        task = StreamTask(
            self.world.topology, self.source, self.place[1], {}, position=at, apart=True
        )
        task.views[view.name] = view.task
        self.apart[view.name] = StreamStep(task, [view], self.watermark, self.clock, in_turn)

    def _all_views(self) -> list[ViewTask]:
        if self.task is None or self.step is None:
            return []
        tasks = (self.task, *(step.task for step in self.apart.values()))
        return [view for task in tasks for view in task.views.values()]

    def _commands(self, view: ViewTask) -> bool:
        """Whether there are commands that are not carried out yet."""
        partition = self.world.log.partitions.get((view.view.commands_topic, self.place[1]))
        return partition is not None and partition.end > view.state.positions.commands

    async def catch_up(self, main: StreamStep) -> CommitUnit | None:
        """A step of a view that was resumed; one that has read as far joins the others."""
        for name, step in list(self.apart.items()):
            view, task = step.views[name], step.task
            if step.halted:
                continue
            if task.position >= self.position and not step.unfinished:
                main.admit(view)
                del self.apart[name]
                continue
            at, records = task.position, []
            if not step.unfinished:
                found, at = self.input.read(at, self.world.batch, self.position)
                records = [record(self.world, self.place, offset) for offset in found]
            return step.move(at, await step.take(records))
        return None


class _ObeyingStep(StreamStep):
    """The step of the views that read together, and in its turn that of each other one."""

    def __init__(self, runner: ObeyingRunner, task: StreamTask) -> None:
        super().__init__(task, (), runner.watermark, runner.clock, in_turn, runner.leaves)
        self._runner = runner

    async def poll_side_inputs(self) -> None:
        await super().poll_side_inputs()
        for apart in self._runner.apart.values():
            await apart.poll_side_inputs()

    def last_unit(self) -> CommitUnit:
        unit = super().last_unit()
        for apart in self._runner.apart.values():
            for view in apart.views.values():
                view.task.state.save(unit)
        return unit

    async def next_command_unit(self) -> CommitUnit | None:
        if (unit := await super().next_command_unit()) is not None:
            return unit
        for apart in self._runner.apart.values():
            if (unit := await apart.next_command_unit()) is not None:
                return unit
        return await self._runner.catch_up(self)


class HaltingSchedule(Schedule):
    """Views are halted and resumed as well; at rest all go on."""

    def halt(self) -> None:
        """An operator halts a view in a partition."""
        self._command("halt")

    def resume(self) -> None:
        """An operator resumes it."""
        self._command("resume")

    def rest(self) -> None:
        for view in self.world.topology.views:
            for number in range(self.world.partitions):
                self._send_command("resume", view, number)
        super().rest()

    def _command(self, name: str) -> None:
        world = self.world
        view = world.chance.choice(list(world.topology.views))
        self._send_command(name, view, int(world.chance.random() * world.partitions))

    def _send_command(self, name: str, view: str, number: int) -> None:
        world = self.world
        place = world.topology.views[view].commands_topic, number
        value = encode_command(Command(name, view, who="the schedule"))
        world.log.append(place, [(view.encode(), value, world.log.now, [])])
        self.trace.append((name, "{}/{}".format(*place), ""))

    faults: ClassVar[tuple[Callable[..., None], ...]] = (*FAULTS, halt, halt, resume, resume)
