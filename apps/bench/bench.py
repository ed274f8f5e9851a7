"""What every scenario works with: the broker, filled inputs, and runs of a program on them."""

import shutil
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from confluent_kafka import KafkaException

from bench.audit import Changes, audit
from bench.cluster import NOW, Cluster, Partition
from bench.job import Guarantee, Job
from bench.peers.peer import Peer
from bench.programs import Program, start
from bench.results import Result, Sample
from bench.timing import QUIET, Look, Stalled, Timing, watch
from bench.workload import Message, Workload
from sequitur.cli.signals import check_interrupted
from sequitur.demo.processes import ChildFailed
from soak.check import read

PARTITIONS = 4
FULL = 400_000
"""Events at which the goals are stated; fewer make the rest of the sizes smaller as well."""
SETTLE = 5
"""Seconds that programs get to become quiet."""
BUSY = 0.1
"""CPU seconds a second above which they are not."""


class Messages(Hashable, Protocol):
    """What a topic is filled with."""

    @property
    def messages(self) -> Iterable[Message]: ...


@dataclass
class Bench:
    """events: of the workload. peers: the contestants chosen that are installed, by name.

    results: of this machine so far, by scenario. rate: events a second for measuring latency, None
    for a tenth of the throughput. turn: which repeat it is, from 0.
    """

    cluster: Cluster
    folder: Path
    events: int
    peers: Mapping[str, Peer]
    results: dict[str, Result] = field(default_factory=dict)
    rate: int | None = None
    turn: int = 0
    _filled: dict[Messages, str] = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        """The one that throughput is measured with."""
        return Workload(self.events)

    def scaled(self, size: int) -> int:
        """A size that belongs to the full number of events, for the chosen number."""
        return max(100, size * self.events // FULL)

    def topic(self, workload: Messages, times: Iterable[int] = NOW) -> str:
        """A topic that holds the workload; filled once and read by all.

        times: of its messages, ms since 1970; 0 for now.
        """
        if workload not in self._filled:
            topic = f"bench-{uuid4().hex[:8]}.in"
            self.cluster.create({topic: PARTITIONS})
            self.cluster.fill(topic, workload.messages, times)
            self._filled[workload] = topic
        return self._filled[workload]

    def forget(self) -> None:
        """Delete the inputs."""
        for topic in self._filled.values():
            self.cluster.delete(topic)
        self._filled.clear()

    @contextmanager
    def run(
        self,
        guarantee: Guarantee,
        outputs: Sequence[str] = ("out",),
        partitions: int = PARTITIONS,
    ) -> Iterator["Run"]:
        """A run with names of its own, an empty input and outputs; it is cleaned up afterwards.

        outputs: what follows the run's name in the names of the output topics.
        """
        name = f"bench-{uuid4().hex[:8]}"
        topics = [f"{name}.{output}" for output in outputs]
        source = f"{name}.in"
        self.cluster.create(dict.fromkeys([source, *topics], partitions))
        datadir = self.folder / "data" / name
        job = Job(self.cluster.broker, source, topics[0], name, datadir, guarantee, partitions)
        run = Run(self.cluster, job, topics, self.folder / "logs")
        try:
            yield run
        finally:
            run.stop()
            shutil.rmtree(datadir, ignore_errors=True)
            self.cluster.delete(name)


def sample(subject: str, measure: Callable[[], dict[str, float]]) -> Sample:
    """Measure, and make what goes wrong on the way the sample's problem."""
    try:
        return Sample(subject, measure())
    except (Wrong, Stalled, ChildFailed, KafkaException, TimeoutError) as error:
        return Sample(subject, {}, str(error))


class Wrong(RuntimeError):
    """The output is not what it should be, so its speed is of no interest."""


@dataclass
class Run:
    """Programs that do one job together. Logs are kept until the next time the bench starts."""

    cluster: Cluster
    job: Job
    outputs: Sequence[str]
    logs: Path
    programs: list[Program] = field(default_factory=list)
    _started: int = 0

    def start(self, command: Sequence[str], name: str, **more: str) -> Program:
        """Start a program. name: for its log and its folder, which it keeps when started again."""
        datadir = self.job.datadir / name
        datadir.mkdir(parents=True, exist_ok=True)
        environment = replace(self.job, datadir=datadir).environment() | more
        self._started += 1
        log = self.logs / f"{self.job.group}-{name}-{self._started}.log"
        program = start(name, command, log, environment)
        self.programs.append(program)
        return program

    def read(self, topic: str) -> None:
        """Take another topic for the input."""
        self.job = replace(self.job, input=topic)

    def check(self) -> None:
        """Raise ChildFailed where a program has ended."""
        check_interrupted()
        for program in self.programs:
            program.check()

    def kill(self, program: Program) -> None:
        """SIGKILL, and no one is to miss it."""
        self.programs.remove(program)
        program.kill()

    def ready(self, members: int | None) -> None:
        """Wait until the group has that many members, then until they have settled down.

        members: None of programs that are in no group. Raises TimeoutError.
        """
        if members is not None:
            self.until(lambda: self.cluster.members(self.job.group) == members, "no group")
        before = self.cpu()
        for _ in range(SETTLE):
            time.sleep(1.0)
            used, before = self.cpu() - before, self.cpu()
            if used < BUSY:
                break

    def until(self, reached: Callable[[], bool], problem: str, seconds: float = 300.0) -> None:
        """Wait for something. Raises TimeoutError with the problem."""
        deadline = time.monotonic() + seconds
        while not reached():
            self.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{problem} after {seconds:.0f} s")
            time.sleep(0.2)

    def has_output(self) -> bool:
        """Whether readers of committed records can see a record of each output."""
        ends = self.cluster.ends(self._ends())
        seen = {topic for (topic, _), end in ends.items() if end}
        return seen == set(self.outputs)

    def look(self) -> Look:
        """How far the outputs are, at the monotonic clock's seconds."""
        ends = tuple(self.cluster.ends(self._ends()).values())
        return Look(time.monotonic(), ends, self.cpu())

    def watch(self, records: int, since: Look | None = None) -> Timing:
        """Wait until the outputs hold that many records altogether. since: the look with which it
        began, else when the first can be read. Raises Stalled."""
        return watch(self.cluster, self._ends(), records, self.cpu, self.check, since=since)

    def watch_input(self, records: int, held: float, since: Look) -> Timing:
        """Wait until all input is committed and nothing comes of it any more. Raises Stalled.

        records: of the input behind `since`, which is what the rate is then of. held: seconds for
        which it may be held back. since: the look with which it began.
        """
        job = self.job

        def done() -> bool:
            # Behind the last message is its transaction's marker: some do not commit past that.
            lag = self.cluster.lag(job.group, job.input, job.partitions)
            return lag is not None and lag <= job.partitions

        quiet = QUIET + held
        return watch(self.cluster, self._ends(), records, self.cpu, self.check, done, quiet, since)

    def audit(self, ends: Mapping[str, int], changes: Changes | None = None) -> None:
        """Raise Wrong unless every output holds every stream's events up to its end, in order.

        Once, too, where exactly once is promised; with these row changes, where they are given.
        """
        for output in self.outputs:
            values = (record.value() or b"" for record in read(self.cluster.broker, output))
            once = self.job.guarantee == "exactly_once"
            problem = audit(values, ends, changes).problem(once=once)
            if problem:
                raise Wrong(f"{output.rpartition('.')[2]}: {problem}")

    def stop(self) -> None:
        """Stop all programs."""
        for program in self.programs:
            program.stop()
        self.programs.clear()

    def _ends(self) -> list[Partition]:
        return [(topic, p) for topic in self.outputs for p in range(self.job.partitions)]

    def cpu(self) -> float:
        """CPU seconds that the programs, and those that they started, have used so far."""
        return sum(program.cpu + program.cpu_below for program in self.programs)
