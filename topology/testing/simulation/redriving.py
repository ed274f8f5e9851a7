"""Dead events that operators put back in a simulation, twice at a time and while workers die."""

from collections.abc import Callable
from typing import ClassVar

from topology.engine.redelivery.dead_events import DeadEventFilter, find_dead, put_back
from topology.model.event import Record
from topology.testing.simulation.faults import FAULTS
from topology.testing.simulation.schedule import Schedule

ROUNDS = 3
"""Times that dead events are put back in the end."""


class RedrivingSchedule(Schedule):
    """An operator who does not look at what was put back before."""

    _turn = 0

    def rest(self) -> None:
        """At rest what can go on has gone on: the rest is dead for what never came."""
        for _ in range(ROUNDS):
            super().rest()
            for _ in self.world.topology.views:
                self.redrive()
        super().rest()

    def redrive(self) -> None:
        """Put all dead events of a view back that show by now."""
        world = self.world
        self._turn += 1
        views = list(world.topology.views.values())
        view = views[self._turn % len(views)]
        dead = world.log.partition((view.dead_topic, 0))
        offsets, _ = dead.read(0, len(dead.records))
        records = [
            Record(view.dead_topic, 0, at, out[0], out[1], out[3], out[2])
            for at in offsets
            if (out := dead.records[at]) is not None
        ]
        found = find_dead(view, records, DeadEventFilter(), ())
        for each in found.chosen:
            place = view.redeliver_topic, world.partition_of(each.record.key)
            world.log.append(place, [put_back(each, world.log.now)])
        for runner in self.active:
            # Whoever has nothing to do looks there now and then all the same.
            runner.due = min(runner.due, world.log.now)
        self.trace.append(("redrive", view.name, f"{len(found.chosen)} dead events"))

    faults: ClassVar[tuple[Callable[..., None], ...]] = (*FAULTS, redrive, redrive, redrive)
