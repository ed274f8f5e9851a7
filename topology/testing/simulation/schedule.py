"""One schedule: whose step is next, and what goes wrong in between, all by one seed."""

from collections import Counter
from collections.abc import Callable
from typing import ClassVar

from topology.testing.simulation.cluster import Cluster
from topology.testing.simulation.faults import FAULTS
from topology.testing.simulation.messages import Arrivals
from topology.testing.simulation.runner import PartitionRunner
from topology.testing.simulation.world import World

ROUNDS = 2_000
"""Rounds over all partitions in which a run has to come to rest once nothing more goes wrong."""
STEPS = 16
"""Steps that a partition takes at most before another one's turn."""


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

    faults: ClassVar[tuple[Callable[..., None], ...]] = FAULTS

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
        self.zombies = zombies

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
