"""One schedule: whose step is next, and what goes wrong in between, all by one seed."""

from collections import Counter
from collections.abc import Callable
from typing import ClassVar

from topology.testing.simulation.cluster import Cluster
from topology.testing.simulation.messages import Arrivals
from topology.testing.simulation.runner import PartitionRunner
from topology.testing.simulation.world import World

ROUNDS = 2_000
"""Rounds over all partitions in which a run has to come to rest once nothing more goes wrong."""
STEPS = 16
"""Steps that a partition takes at most before another one's turn."""


SKEW = 20
"""Leaps that a machine's clock is ahead or behind at most."""


class Restless(AssertionError):
    """Nothing goes wrong any more, and still there is always something to do."""


class Schedule(Cluster):
    """Runs workers over what arrives, with crashes, rebalances, stalls, a moving clock, and
    workers whose clocks differ.

    crashed: the steps at which partitions were when their worker died. handled, failed: what the
    audit saw of events, over all views. skewed: whether workers' clocks differ, so that a gap may
    be given up before its time by who has it from another. zombies: whether a worker may go on with
    a partition that it does not know is another's by now. faults: what may go wrong, the likelier
    the more often it is named.
    """

    faults: ClassVar[tuple[Callable[..., None], ...]] = ()

    def __init__(
        self,
        world: World,
        arrivals: Arrivals,
        workers: int,
        runner: type[PartitionRunner],
        *,
        zombies: bool,
        verbose: bool = False,
    ) -> None:
        super().__init__(world, workers, runner, verbose=verbose)
        self.arrivals = arrivals
        self.arrived = 0
        self.crashed: Counter[str] = Counter()
        self.handled = self.failed = 0
        self.skewed = False
        self._zombies = zombies

    # -- the whole of it

    def run(self) -> None:
        """Let all messages arrive amid faults; then let everything come to rest."""
        random = self.world.chance.random
        for number, place in enumerate(self.places):
            self.start(self.workers[number % len(self.workers)], place)
        quiet, faults = 1 - random() * 0.5, self.faults
        self.skewed = random() < 0.25
        last = len(self.arrivals)
        trace = self.trace
        while self.arrived < last or random() > 0.1:
            die = random()
            if die > quiet:
                told = len(trace)
                while len(trace) == told:  # some of them find nothing to do
                    faults[int(random() * len(faults))](self)
            elif die < 0.25 and self.arrived < last:
                self.arrive()
            else:
                self.step()
        self.rest()

    def arrive(self) -> None:
        """Some more messages arrive."""
        world, first, random = self.world, self.arrived, self.world.chance.random
        self.arrived += 1 + int(random() * 6)
        log = world.log
        now, keyed = log.now, self.places
        for topic, (key, value, _, headers) in self.arrivals[first : self.arrived]:
            anywhere = key is None and not keyed[topic, 0][1]
            at = int(random() * world.partitions) if anywhere else world.partition_of(key)
            log.partition((topic, at)).append([(key, value, now, headers)], now)
        self.arrived = min(self.arrived, len(self.arrivals))
        self.trace.append(("arrive", "", f"messages {first} to {self.arrived - 1}"))

    def step(self) -> None:
        """A partition that has something to do takes some steps."""
        busy = [runner for runner in self.active if runner.busy]
        if busy:
            random = self.world.chance.random
            self.advance(busy[int(random() * len(busy))], 1 + int(random() * STEPS))
        elif self.arrived < len(self.arrivals):
            self.arrive()

    def rest(self) -> None:
        """End all faults, and go on until nothing is left to do."""
        self.trace.append(("rest", "", "from here on nothing goes wrong"))
        world = self.world
        for worker in self.workers:
            worker.alive = True
        for _ in range(ROUNDS):
            self.recover()
            busy = 0
            for runner in self.active[:]:
                if runner.busy:
                    busy += self.advance(runner, 1000) or runner.at == "waits"
            if not busy and len(self.active) == len(self.places) and not world.log.unfinished():
                # Each worker goes by its own clock.
                due = min(runner.due - runner.worker.ahead for runner in self.active)
                if due == float("inf"):
                    return
                longest = world.layout.longest
                if longest is not None and due > world.log.now + longest:
                    raise Restless(
                        f"nothing is done for {due - world.log.now:.0f} ms, and no policy of the "
                        f"topology waits for longer than {longest}"
                    )
                world.log.now = max(world.log.now, int(due))
        raise Restless(f"still {', '.join(f'{r.name} {r.at}' for r in self.active)}")

    # -- what may go wrong, or merely happen

    def hurry(self, runners: list[PartitionRunner]) -> PartitionRunner | None:
        """Bring one of these into the middle of something: there a fault is most instructive."""
        random = self.world.chance.random
        behind = [runner for runner in runners if runner.behind]
        if not behind and self.arrived < len(self.arrivals):
            self.arrive()
            behind = [runner for runner in runners if runner.behind]
        behind = behind or runners
        if not behind:
            return None
        runner = behind[int(random() * len(behind))]
        self.advance(runner, int(random() * STEPS))
        return runner

    def crash(self) -> None:
        """A worker dies; its disk may be lost as well."""
        chance = self.world.chance
        worker = chance.choice(self.workers)
        if worker.alive:
            self.hurry([runner for runner in self.active if runner.worker is worker])
            disk = chance.random() < 0.2
            steps = [runner.at for runner in worker.runners.values() if runner is not None]
            self.crashed.update(steps)
            self.trace.append(("crash", worker.name, "with its disk" if disk else ", ".join(steps)))
            self.active = [runner for runner in self.active if runner.worker is not worker]
            worker.die(chance, disk=disk)
            for place, owner in self.owner.items():
                if owner is worker:
                    self.owner[place] = None

    def restart(self) -> None:
        """A dead worker comes back, and gets what nobody has."""
        worker = self.world.chance.choice(self.workers)
        if not worker.alive:
            worker.alive = True
            # Its machine's clock may have been set meanwhile, or never have been right.
            if self.skewed:
                skew = self.world.layout.leap * SKEW
                worker.ahead = int((self.world.chance.random() * 2 - 1) * skew)
            self.trace.append(("restart", worker.name, f"its clock {worker.ahead} ms ahead"))
            for place, owner in self.owner.items():
                if owner is None:
                    self.start(worker, place)

    def assign(self) -> None:
        """A partition that nobody has goes to some worker."""
        places = [place for place, owner in self.owner.items() if owner is None]
        alive = [worker for worker in self.workers if worker.alive]
        if places and alive:
            self.start(self.world.chance.choice(alive), self.world.chance.choice(places))

    def move(self) -> None:
        """A rebalance: the owner finishes its step or drops it first, or does not hear of it."""
        chance = self.world.chance
        place = chance.choice(list(self.places))
        owner = self.owner[place]
        alive = [worker for worker in self.workers if worker.alive]
        if owner is None or not alive:
            return
        taker, how = chance.choice(alive), chance.choice(("finish", "drop", "zombie"))
        self.hurry([runner for runner in self.active if runner.place == place])
        self.trace.append(("move", "{}/{}".format(*place), f"to {taker.name}: {how}"))
        if how != "zombie" or not self._zombies:
            self.stop(owner, place, finish=how == "finish")
        self.start(taker, place)

    def notice(self) -> None:
        """Zombies hear of the rebalance."""
        for worker in self.workers:
            for place in list(worker.runners):
                if self.owner[place] is not worker:
                    self.stop(worker, place, finish=self.world.chance.random() < 0.5)

    def retry(self) -> None:
        """A partition that was fenced off starts again, whether or not it is still the worker's."""
        for worker in self.workers:
            for place, runner in list(worker.runners.items()):
                if runner is None:
                    self.start(worker, place, owns=False)

    def fail(self) -> None:
        """A partition meets an error of the broker, and starts again from what is committed."""
        runner = self.hurry(self.active)
        if runner is not None and runner in self.active:
            self.trace.append(("fail", runner.name, runner.at))
            self.active.remove(runner)
            del runner.worker.runners[runner.place]
            self.start(runner.worker, runner.place, owns=False)

    def clock(self) -> None:
        """Time passes."""
        passed = int(self.world.chance.random() * self.world.layout.leap)
        self.world.log.now += passed
        self.trace.append(("clock", "", f"{passed} ms pass"))

    def broker(self) -> None:
        """A committed transaction shows in one more partition, or an open one is given up."""
        names = self.world.log.unfinished()
        if names:
            name = self.world.chance.choice(names)
            self.trace.append(("broker", name, "goes on with the transaction or ends it"))
            self.settle(name, 1)

    def compact(self) -> None:
        """A view's changelog is compacted, in time its deletions too."""
        chance, world = self.world.chance, self.world
        view = chance.choice(list(world.topology.views))
        place = world.changelog(view, int(chance.random() * world.partitions))
        tombstones = chance.random() < 0.5
        told = "deletions too" if tombstones else ""
        self.trace.append(("compact", "{}/{}".format(*place), told))
        world.log.partition(place).compact(tombstones=tombstones)

    def heartbeat(self) -> None:
        """At least once: offsets are committed."""
        for worker in self.workers:
            if worker.uncommitted:
                self.trace.append(("heartbeat", worker.name, f"commits {worker.uncommitted}"))
                self.commit_offsets(worker)


# The more often a fault stands here, the likelier it is.
FAULTS: tuple[Callable[[Schedule], None], ...] = (
    Schedule.crash, Schedule.crash, Schedule.restart, Schedule.restart, Schedule.move,
    Schedule.move, Schedule.fail, Schedule.notice, Schedule.notice, Schedule.clock,
    Schedule.clock, Schedule.broker, Schedule.broker, Schedule.compact, Schedule.heartbeat,
    Schedule.assign, Schedule.assign, Schedule.retry,
)  # fmt: skip

Schedule.faults = FAULTS
