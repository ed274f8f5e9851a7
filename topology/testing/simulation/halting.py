"""Views that operators halt and resume in a simulation: they leave the others, and come back.

What `topology.faust.worker.stream_partition` does with runners of their own, one runner does
here in turn.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar

from topology.engine.commands.execute import Command, decode_command, encode_command, execute
from topology.engine.commit_unit import CommitUnit
from topology.engine.stream_task import StreamTask
from topology.engine.view_task import ViewTask
from topology.testing.awaited import complete
from topology.testing.simulation.runner import PartitionRunner
from topology.testing.simulation.schedule import FAULTS, Schedule


class ObeyingRunner(PartitionRunner):
    """Carries out what the views' commands topics say. apart: view → its own task."""

    apart: dict[str, StreamTask]

    def build(self) -> StreamTask:
        task, self.apart = super().build(), {}
        task.position = self.world.log.offsets.get(self.place, 0)
        # All of them are to be looked after between two steps.
        self.rebuilders = list(task.views.values())
        for name, view in list(task.views.items()):
            at = view.state.positions.input
            if at is None or (view.halted is None and at == task.position):
                task.admit(name, view)
            else:
                self._leaves(name, task.views.pop(name))
        return task

    def commit(self, unit: CommitUnit) -> Iterator[str]:
        yield from super().commit(unit)
        if self.task is not None:
            for name, view in self.task.dismiss().items():
                self._leaves(name, view)

    def rebuild(self) -> CommitUnit | None:
        return self._told() or self._caught_up() or super().rebuild()

    @property
    def busy(self) -> bool:
        return super().busy or any(self._commands(view) for view in self.rebuilders)

    def _leaves(self, name: str, view: ViewTask) -> None:
        at = view.state.positions.input
        assert at is not None
        apart = self.apart[name] = StreamTask(
            self.world.topology, self.source, self.place[1], {}, position=at, apart=True
        )
        apart.views[name] = view

    def _commands(self, view: ViewTask) -> list[tuple[int, bytes | None]]:
        """(offset, value) of commands that are not carried out yet."""
        partition = self.world.log.partitions.get((view.view.commands_topic, self.place[1]))
        if partition is None or partition.end <= view.state.positions.commands:
            return []
        found, _ = partition.read(view.state.positions.commands, 1 << 30)
        return [(at, out[1]) for at in found if (out := partition.records[at]) is not None]

    def _told(self) -> CommitUnit | None:
        assert self.task is not None
        for task in (self.task, *self.apart.values()):
            for view in task.views.values():
                if commands := self._commands(view):
                    unit = CommitUnit(*self.place, now=self.now)
                    for at, value in commands:
                        execute(view, decode_command(value), unit)
                        view.state.positions.commands = at + 1
                    task.finish(unit)
                    return unit
        return None

    def _caught_up(self) -> CommitUnit | None:
        """A step of a view that was resumed; one that has read as far joins the others."""
        assert self.task is not None
        for name, apart in list(self.apart.items()):
            view = apart.views[name]
            if view.halted:
                continue
            if apart.position >= self.position and not view.unfinished:
                self.task.admit(name, view)
                del self.apart[name]
                continue
            now, limit = self.now, self.world.batch
            at, records = apart.position, []
            if not view.unfinished:
                found, at = self.input.read(at, limit, self.position)
                records = [self.record(offset) for offset in found]
            unit, events = apart.begin(records, now)
            if view.view.is_async:
                complete(view.arun(events, unit, None))
            else:
                view.run(events, unit, None)
            apart.move(at, unit)
            apart.finish(unit)
            return unit
        return None


class HaltingSchedule(Schedule):
    """Views are halted and resumed as well; at rest all go on."""

    def halt(self) -> None:
        """An operator halts a view in a partition."""
        self._tell("halt")

    def resume(self) -> None:
        """An operator resumes it."""
        self._tell("resume")

    def rest(self) -> None:
        for view in self.world.topology.views:
            for number in range(self.world.partitions):
                self._say("resume", view, number)
        super().rest()

    def _tell(self, name: str) -> None:
        world = self.world
        view = world.chance.choice(list(world.topology.views))
        self._say(name, view, int(world.chance.random() * world.partitions))

    def _say(self, name: str, view: str, number: int) -> None:
        world = self.world
        place = world.topology.views[view].commands_topic, number
        value = encode_command(Command(name, view, who="the schedule"))
        world.log.append(place, [(view.encode(), value, world.log.now, [])])
        self.trace.append((name, "{}/{}".format(*place), ""))

    faults: ClassVar[tuple[Callable[..., None], ...]] = (*FAULTS, halt, halt, resume, resume)
