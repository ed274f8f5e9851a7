"""Simulator: a topology under crashes, rebalances and duplicates, each schedule made by a seed."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, get_args

from topology.declaration.topology import Topology
from topology.engine.state.short_waits import WaitLimits
from topology.model.printable import printable
from topology.testing.simulation.audit import Audit
from topology.testing.simulation.fake_log import FakeLog
from topology.testing.simulation.halting import HaltingSchedule, ObeyingRunner
from topology.testing.simulation.layout import Layout
from topology.testing.simulation.messages import Arrivals, Delivery, Messages, written
from topology.testing.simulation.redriving import RedrivingSchedule
from topology.testing.simulation.runner import PartitionRunner
from topology.testing.simulation.schedule import Schedule
from topology.testing.simulation.supported import check_simulated
from topology.testing.simulation.world import Guarantee, World

START = 1_000_000_000_000
"""The clock at the start of every run (ms)."""
LIMITS = (None, WaitLimits(4, time=10), WaitLimits(40, time=200))
"""How long events wait in memory only, in schedules that take turns."""
TRACE_LINES = 60
"""Lines of the trace that a failure shows."""


@dataclass(slots=True)
class Report:
    """What runs did.

    Attributes:
        seeds: schedules that were run.
        messages: messages that arrived; one that arrived twice counts twice.
        handled: events that handlers got through, over all views.
        failed: events that failed in their handlers, over all views.
        actions: actions of the schedules: crashes, moves, arrivals and so on.
        steps: steps that partitions took.
        seconds: wall-clock seconds that the runs took together.
        crashed: name of a step → how often a worker died at it.
        trace: (what, who, detail) of each action of the last run.
    """

    seeds: int = 0
    messages: int = 0
    handled: int = 0
    failed: int = 0
    actions: int = 0
    steps: int = 0
    seconds: float = 0.0
    crashed: Counter[str] = field(default_factory=Counter)
    trace: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, other: "Report") -> None:
        """Add what other runs did.

        Args:
            other: their report.
        """
        self.seeds += other.seeds
        self.messages += other.messages
        self.handled += other.handled
        self.failed += other.failed
        self.actions += other.actions
        self.steps += other.steps
        self.seconds += other.seconds
        self.crashed.update(other.crashed)
        self.trace = other.trace

    def __str__(self) -> str:
        crashes = ", ".join(f"{count} {step}" for step, count in self.crashed.most_common())
        seconds, speed = self.seconds, ""
        if seconds:
            speed = f" in {seconds:.1f} s: {self.seeds / seconds:.0f} schedules/s"
        return (
            f"{self.seeds} schedules, {self.messages} messages, {self.steps} steps{speed}\n"
            f"{self.handled} events handled, {self.failed} failed in their handlers\n"
            f"partitions lost to a crash, by the step they were at: {crashes or 'none'}"
        )


class SimulationError(AssertionError):
    """A schedule broke a promise.

    Attributes:
        seed: the seed that `replay` runs again.
        wrong: what is wrong, a sentence each.
        trace: (what, who, detail) of each action of the schedule.
    """

    def __init__(self, seed: int, wrong: list[str], trace: list[tuple[str, str, str]]) -> None:
        self.seed = seed
        self.wrong = wrong
        self.trace = trace
        more = f"\n  … and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        super().__init__(
            f"seed {seed}:\n  " + "\n  ".join(wrong[:10]) + more + "\n\n"
            f"the last of its {len(trace)} actions (replay(seed) tells each step):\n"
            + trace_text(trace[-TRACE_LINES:])
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """From a process that runs a part of the seeds to the one that asked for it."""
        return SimulationError, (self.seed, self.wrong, self.trace)


class Simulator:
    """Runs a topology's engine against a fake log, clock, disks and assignment.

    Args:
        topology: what is run.
        messages: what producers send, or a function that makes it from a seed.
        guarantee: how units are committed.
        workers: how many processes there are.
        partitions: of every input topic.
        batch: the most records of a fetch.
        drain: the most events that a step releases out of buffers; None for the engine's limit.
        delivery: how often messages are late, twice or lost.
        zombies: whether workers may go on with partitions that are others' by now. Only a
            transaction can fence them off, so at least once has none unless asked for.
        runner: a partition's runner; another one shows that a mistake in it would be found.
        halts: whether operators halt and resume views meanwhile.
        memory: bytes for events that wait in a partition; None for the engine's limit. With 0 they
            are rows only.
        redrives: whether operators put dead events back; exactly once only, and of messages that
            come once.
        short_waits: whether events may wait in memory only, in two of three schedules.

    Raises:
        TypeError: `topology` is no Topology.
        ValueError: it has something that is not simulated, or an option is wrong.
        KeyError: a message is for a topic that is no source's.
    """

    def __init__(
        self,
        topology: Topology,
        messages: Messages,
        *,
        guarantee: Guarantee = "exactly_once",
        workers: int = 2,
        partitions: int = 2,
        batch: int = 8,
        drain: int | None = None,
        delivery: Delivery | None = None,
        zombies: bool | None = None,
        runner: type[PartitionRunner] = PartitionRunner,
        halts: bool = False,
        memory: int | None = None,
        redrives: bool = False,
        short_waits: bool = True,
    ) -> None:
        if not isinstance(topology, Topology):
            raise TypeError(f"Simulator({printable(repr(topology))}): give a Topology")
        check_simulated(topology)
        if guarantee not in get_args(Guarantee):
            known = " or ".join(map(repr, get_args(Guarantee)))
            raise ValueError(f"Simulator(guarantee={guarantee!r}): give {known}")
        for name, number in {"workers": workers, "partitions": partitions, "batch": batch}.items():
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise ValueError(f"Simulator({name}={number!r}): give a number from 1 on")
        self.topology = topology
        self.guarantee: Guarantee = guarantee
        self.workers = workers
        self.layout = Layout(topology, partitions)
        self.batch = batch
        self.drain = drain
        self.memory = memory
        self.short_waits = short_waits
        self.delivery = delivery or Delivery()
        self.zombies = guarantee == "exactly_once" if zombies is None else zombies
        self.runner = ObeyingRunner if halts else runner
        self._schedule = HaltingSchedule if halts else RedrivingSchedule if redrives else Schedule
        self._messages = messages
        self._written = None if callable(messages) else written(topology, messages)
        self._audit = Audit(topology)

    def run(self, seeds: int | Iterable[int]) -> Report:
        """Run one seed, or several.

        Args:
            seeds: a seed, or the seeds to run.

        Raises:
            SimulationError: the first seed that breaks a promise, with its steps.
        """
        report, began = Report(), time.perf_counter()
        for seed in (seeds,) if isinstance(seeds, int) else seeds:
            report.add(_reported(self._run(seed)))
        report.seconds = time.perf_counter() - began
        return report

    def replay(self, seed: int) -> Report:
        """Run a seed exactly as before, with each step in the trace.

        Args:
            seed: the seed.

        Raises:
            SimulationError: a promise is broken.
        """
        return _reported(self._run(seed, verbose=True))

    def _run(self, seed: int, *, verbose: bool = False) -> Schedule:
        chance = Random(seed)
        world = World(
            self.layout,
            FakeLog(chance, START),
            chance,
            self.guarantee,
            self.batch,
            self.drain,
            self.memory,
            # By the seed itself: schedules are the same with and without.
            LIMITS[seed % len(LIMITS)] if self.short_waits else None,
        )
        arrivals = self.delivery.arrange(self._sent(seed), chance)
        schedule = self._schedule(
            world, arrivals, self.workers, self.runner, zombies=self.zombies, verbose=verbose
        )
        try:
            schedule.run()
            wrong = self._audit.errors(schedule)
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
            raise SimulationError(seed, wrong, schedule.trace) from error
        finally:
            schedule.close()
        if wrong:
            raise SimulationError(seed, wrong, schedule.trace)
        return schedule

    def _sent(self, seed: int) -> Arrivals:
        if self._written is not None:
            return self._written
        assert callable(self._messages)
        return written(self.topology, self._messages(seed))


def _reported(schedule: Schedule) -> Report:
    return Report(
        1,
        schedule.arrived,
        schedule.handled,
        schedule.failed,
        len(schedule.trace),
        schedule.steps,
        crashed=schedule.crashed,
        trace=schedule.trace,
    )


def trace_text(trace: Iterable[tuple[str, str, str]]) -> str:
    """A trace as text, an action per line."""
    return "\n".join(f"{what:10}{who:36} {detail}".rstrip() for what, who, detail in trace)
