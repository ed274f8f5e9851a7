"""What may go wrong in a schedule, or merely happens; each does nothing where it does not apply."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.testing.simulation.schedule import Schedule

SKEW = 20
"""Leaps that a machine's clock is ahead or behind at most."""


def crash(schedule: "Schedule") -> None:
    """A worker dies; its disk may be lost as well."""
    chance = schedule.world.chance
    worker = chance.choice(schedule.workers)
    if worker.alive:
        schedule.hurry([runner for runner in schedule.active if runner.worker is worker])
        disk = chance.random() < 0.2
        steps = [runner.at for runner in worker.runners.values() if runner is not None]
        schedule.crashed.update(steps)
        schedule.trace.append(("crash", worker.name, "with its disk" if disk else ", ".join(steps)))
        schedule.active = [runner for runner in schedule.active if runner.worker is not worker]
        worker.die(chance, disk=disk)
        for place, owner in schedule.owner.items():
            if owner is worker:
                schedule.owner[place] = None


def restart(schedule: "Schedule") -> None:
    """A dead worker comes back, and gets what nobody has."""
    worker = schedule.world.chance.choice(schedule.workers)
    if not worker.alive:
        worker.alive = True
        # Its machine's clock may have been set meanwhile, or never have been right.
        if schedule.skewed:
            skew = schedule.world.layout.leap * SKEW
            worker.ahead = int((schedule.world.chance.random() * 2 - 1) * skew)
        schedule.trace.append(("restart", worker.name, f"its clock {worker.ahead} ms ahead"))
        for place, owner in schedule.owner.items():
            if owner is None:
                schedule.start(worker, place)


def assign(schedule: "Schedule") -> None:
    """A partition that nobody has goes to some worker."""
    places = [place for place, owner in schedule.owner.items() if owner is None]
    alive = [worker for worker in schedule.workers if worker.alive]
    if places and alive:
        schedule.start(schedule.world.chance.choice(alive), schedule.world.chance.choice(places))


def move(schedule: "Schedule") -> None:
    """A rebalance: the owner finishes its step or drops it first, or does not hear of it."""
    chance = schedule.world.chance
    place = chance.choice(list(schedule.places))
    owner = schedule.owner[place]
    alive = [worker for worker in schedule.workers if worker.alive]
    if owner is None or not alive:
        return
    taker, how = chance.choice(alive), chance.choice(("finish", "drop", "zombie"))
    schedule.hurry([runner for runner in schedule.active if runner.place == place])
    schedule.trace.append(("move", "{}/{}".format(*place), f"to {taker.name}: {how}"))
    if how != "zombie" or not schedule.zombies:
        schedule.stop(owner, place, finish=how == "finish")
    schedule.start(taker, place)


def notice(schedule: "Schedule") -> None:
    """Zombies hear of the rebalance."""
    for worker in schedule.workers:
        for place in list(worker.runners):
            if schedule.owner[place] is not worker:
                schedule.stop(worker, place, finish=schedule.world.chance.random() < 0.5)


def retry(schedule: "Schedule") -> None:
    """A partition that was fenced off starts again, whether or not it is still the worker's."""
    for worker in schedule.workers:
        for place, runner in list(worker.runners.items()):
            if runner is None:
                schedule.start(worker, place, owns=False)


def fail(schedule: "Schedule") -> None:
    """A partition meets an error of the broker, and starts again from what is committed."""
    runner = schedule.hurry(schedule.active)
    if runner is not None and runner in schedule.active:
        schedule.trace.append(("fail", runner.name, runner.at))
        schedule.active.remove(runner)
        del runner.worker.runners[runner.place]
        schedule.start(runner.worker, runner.place, owns=False)


def clock(schedule: "Schedule") -> None:
    """Time passes."""
    passed = int(schedule.world.chance.random() * schedule.world.layout.leap)
    schedule.world.log.now += passed
    schedule.trace.append(("clock", "", f"{passed} ms pass"))


def broker(schedule: "Schedule") -> None:
    """A committed transaction shows in one more partition, or an open one is given up."""
    names = schedule.world.log.unfinished()
    if names:
        name = schedule.world.chance.choice(names)
        schedule.trace.append(("broker", name, "goes on with the transaction or ends it"))
        schedule.settle(name, 1)


def compact(schedule: "Schedule") -> None:
    """A view's changelog is compacted, in time its deletions too."""
    chance, world = schedule.world.chance, schedule.world
    view = chance.choice(list(world.topology.views))
    place = world.changelog(view, int(chance.random() * world.partitions))
    tombstones = chance.random() < 0.5
    told = "deletions too" if tombstones else ""
    schedule.trace.append(("compact", "{}/{}".format(*place), told))
    world.log.partition(place).compact(tombstones=tombstones)


def heartbeat(schedule: "Schedule") -> None:
    """At least once: offsets are committed."""
    for worker in schedule.workers:
        if worker.uncommitted:
            schedule.trace.append(("heartbeat", worker.name, f"commits {worker.uncommitted}"))
            schedule.commit_offsets(worker)


# The more often a fault stands here, the likelier it is.
FAULTS: tuple[Callable[["Schedule"], None], ...] = (
    crash, crash, restart, restart, move,
    move, fail, notice, notice, clock,
    clock, broker, broker, compact, heartbeat,
    assign, assign, retry,
)  # fmt: skip
