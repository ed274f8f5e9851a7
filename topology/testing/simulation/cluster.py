"""The workers of a simulation: who has which partition, who believes so, and whose turn it is."""

from collections.abc import Iterator
from itertools import islice

from topology.testing.simulation.fake_log import Fenced
from topology.testing.simulation.log_partition import TopicPartition
from topology.testing.simulation.runner import PartitionRunner
from topology.testing.simulation.worker import Worker
from topology.testing.simulation.world import World


class Cluster:
    """Workers and the assignment of partitions to them.

    owner: who has a partition, None while nobody does. active: all that runs, zombies included.
    trace: (what, who, detail) of each action, and with `verbose` of each step.
    """

    def __init__(
        self, world: World, workers: int, runner: type[PartitionRunner], *, verbose: bool = False
    ) -> None:
        self.world = world
        self.workers = [Worker(f"worker {number}") for number in range(workers)]
        self.places = world.layout.places
        self.owner: dict[TopicPartition, Worker | None] = dict.fromkeys(self.places)
        self.active: list[PartitionRunner] = []
        self._started: list[PartitionRunner] = []
        self.trace: list[tuple[str, str, str]] = []
        self.steps = 0
        self._runner = runner
        self._verbose = verbose

    def advance(self, runner: PartitionRunner, count: int) -> int:
        """Let a partition take steps; it fails if it is fenced."""
        taken = 0
        try:
            taken = runner.advance(count)
            self.trace.append(("run", runner.name, runner.at))
        except Fenced:
            self.trace.append(("fenced", runner.name, f"after {runner.at}"))
            self.active.remove(runner)
            runner.worker.runners[runner.place] = None
            taken = 1
        self.steps += taken
        return taken

    def start(self, worker: Worker, place: TopicPartition, *, owns: bool = True) -> None:
        """Start a partition on a worker, which stops what it still runs of it."""
        self.stop(worker, place, finish=False)
        source, by_stream = self.places[place]
        runner = self._runner(self.world, worker, place, source, by_stream)
        if self._verbose:
            runner.steps = self._traced(runner)
        worker.runners[place] = runner
        self.active.append(runner)
        self._started.append(runner)
        if owns:
            self.owner[place] = worker
        self.trace.append(("start", runner.name, ""))

    def stop(self, worker: Worker, place: TopicPartition, *, finish: bool) -> None:
        """Stop a partition: finish the step in hand or drop it. The tables are flushed."""
        runner = worker.runners.pop(place, None)
        if runner is not None:
            if finish and not runner.between:
                while not runner.between and self.advance(runner, 1):
                    if worker.runners.pop(place, runner) is None:
                        break
            if runner in self.active:
                if finish:
                    self._end(runner)
                self.active.remove(runner)
            self.trace.append(("stop", runner.name, runner.at))
        offset = worker.uncommitted.pop(place, None)
        if offset is not None and self.owner[place] is worker:
            self.world.log.offsets[place] = offset
        worker.close(self.world.layout.views[self.places[place][0].name], place[1])

    def _end(self, runner: PartitionRunner) -> None:
        """An orderly end: what waits in memory only gets its rows, where there is time for that."""
        # No chance is taken, so that schedules are the same where nothing waits so.
        time = None if len(self.trace) % 2 else len(self.trace) % 9
        try:
            self.steps += sum(1 for _ in islice(runner.save(), time))
        except Fenced:
            self.trace.append(("fenced", runner.name, "as it ended"))

    def commit_offsets(self, worker: Worker) -> None:
        """At least once: the group takes offsets of the partitions that are the worker's."""
        offsets, worker.uncommitted = worker.uncommitted, {}
        for place, offset in offsets.items():
            if self.owner[place] is worker:
                self.world.log.offsets[place] = offset

    def settle(self, name: str, markers: int) -> None:
        """Go on with a decided transaction, or let an open one expire."""
        log = self.world.log
        if log.decided(name):
            log.settle(name, markers)
        else:
            log.expire(name)

    def recover(self) -> None:
        """Let every worker know its partitions, and every partition have a worker that runs it."""
        for name in self.world.log.unfinished():
            self.settle(name, 1000)
        for worker in self.workers:
            self.commit_offsets(worker)
            for place, runner in list(worker.runners.items()):
                if self.owner[place] is not worker:
                    self.stop(worker, place, finish=True)
                elif runner is None:
                    self.start(worker, place)
        for number, (place, owner) in enumerate(list(self.owner.items())):
            if owner is None:
                self.start(self.workers[number % len(self.workers)], place)

    def close(self) -> None:
        """Let go of all that ran, so that memory is free at once and no collector looks for it."""
        for runner in self._started:
            runner.drop()
        for worker in self.workers:
            worker.runners.clear()

    def _traced(self, runner: PartitionRunner) -> Iterator[str]:
        """The runner's steps, each with a line in the trace."""
        for step in runner.run():
            self.trace.append(("  step", runner.name, f"{step}: {runner}"))
            yield step
