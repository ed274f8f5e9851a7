"""A worker's figures for Prometheus, made when they are asked for: events pay nothing for them."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, islice

from aiokafka import TopicPartition
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from topology.declaration.view import View
from topology.engine.partition import Dispatch, StreamStep
from topology.engine.partition.ports import Work
from topology.engine.view_task import ViewTask
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.ordered.ordered_partition import OrderedPartition
from topology.faust.worker.ordered.ordered_runner import OrderedRunner
from topology.faust.worker.partition import Partition
from topology.model.counts import Counts
from topology.model.event import Event
from topology.monitoring import Growth, Lags, Pages, gauge

PLACES = ("waiting", "parked", "redelivering")
"""Counts of what is held now; the others say what has become of events."""


@dataclass(frozen=True, slots=True)
class ViewState:
    """A view in a partition: whom its figures are of."""

    name: str
    partition: int
    task: ViewTask


class WorkerMetrics:
    """What is measured while a worker works: the time of steps and commits.

    Args:
        pages: whose figures they are.
    """

    def __init__(self, pages: Pages) -> None:
        self._steps = pages.histogram(
            "sequitur_view_step_seconds",
            "Ordering and handling a batch in a view, until its effects are in the commit unit.",
            ["view"],
        )
        self._handlers = pages.histogram(
            "sequitur_handler_seconds",
            "A handler's time for one event, of one event a batch; of a view with workers, each.",
            ["view"],
        )
        self._commits = pages.histogram(
            "sequitur_commit_seconds",
            "Making a commit unit durable: outputs, state and offset.",
            ["topic"],
        )

    def timed_steps(self, view: str, dispatch: Dispatch) -> Dispatch:
        """A view's dispatch, whose time counts.

        Args:
            view: its name.
            dispatch: has the view's agent do some work.
        """
        observe = self._steps.labels(view).observe

        async def timed(work: Work) -> None:
            began = time.perf_counter()
            try:
                await dispatch(work)
            finally:
                observe(time.perf_counter() - began)

        return timed

    def sampled_handlers(self, view: View) -> Callable[[Iterable[Event]], Iterable[Event]]:
        """The events of a step, the first of which is timed while the handler has it.

        Args:
            view: whose handler it is.
        """
        observe, accepts = self.handlers(view.name), view.accepts

        def first(events: Iterator[Event]) -> Iterator[Event]:
            for event in islice(events, 1):
                began = time.perf_counter()
                yield event
                # Asked for the next one, the handler is done with this one.
                if accepts is None or event.kind in accepts:
                    observe(time.perf_counter() - began)

        def sampled(events: Iterable[Event]) -> Iterable[Event]:
            rest = iter(events)
            return chain(first(rest), rest)

        return sampled

    def handlers(self, view: str) -> Callable[[float], None]:
        """What is told the seconds of each call of a view's handler.

        Args:
            view: its name.
        """
        observe: Callable[[float], None] = self._handlers.labels(view).observe
        return observe

    def commits(self, topic: str) -> Callable[[float], None]:
        """What is told the seconds of each commit.

        Args:
            topic: that its partition is of.
        """
        observe: Callable[[float], None] = self._commits.labels(topic).observe
        return observe


def worker_figures(
    partitions: Sequence[Partition],
    lags: Lags,
    grown: Growth,
    restoring: Mapping[TopicPartition, int],
) -> Iterator[Metric]:
    """The figures of the partitions that a worker has, by view and partition.

    Args:
        partitions: the worker's.
        lags: what is known of their ends.
        grown: what is known of their counts.
        restoring: changelog's partition → records that are still to be read from it.
    """
    yield from _of_inputs(partitions, lags)
    runners = list(stage_runners(partitions))
    yield from _of_views(list(view_states(partitions)), runners, grown)
    yield from _of_stages(runners)
    yield gauge(
        "sequitur_restoring_records",
        "Records of a changelog that are to be read before its partition runs.",
        ["changelog", "partition"],
        [((topic, str(number)), left) for (topic, number), left in restoring.items()],
    )


def _of_inputs(partitions: Iterable[Partition], lags: Lags) -> Iterator[Metric]:
    at = ["topic", "partition"]
    lag = GaugeMetricFamily(
        "sequitur_lag_records", "Records of an input that are not done.", labels=[*at, "reader"]
    )
    behind = GaugeMetricFamily(
        "sequitur_lag_seconds",
        "Seconds since there is something in an input that is not done.",
        labels=[*at, "reader"],
    )
    intake = CounterMetricFamily(
        "sequitur_messages",
        "Messages of an input: read, and of them malformed and unknown.",
        labels=[*at, "outcome"],
    )
    aligned = CounterMetricFamily(
        "sequitur_alignment",
        "How often an input waited for slower ones of its source, and how often no longer for one.",
        labels=[*at, "outcome"],
    )
    running = GaugeMetricFamily(
        "sequitur_partition_running",
        "Whether a partition runs: 0 while it starts, or starts again after a failure.",
        labels=at,
    )
    used = GaugeMetricFamily(
        "sequitur_waiting_bytes", "Memory of the events that wait in a partition.", labels=at
    )
    now = time.monotonic()
    for each in partitions:
        labels = [each.source.topic, str(each.source.partition)]
        running.add_metric(labels, float(each.is_running))
        for reader, runner in list(each.runners.items()):
            if (found := lags.of(each.source, runner.position, now)) is not None:
                lag.add_metric([*labels, reader], found[0])
                behind.add_metric([*labels, reader], found[1])
            task = getattr(runner.step, "task", None)
            if (counts := getattr(task, "intake", None)) is not None and not reader:
                for name in ("read", "malformed", "unknown"):
                    intake.add_metric([*labels, name], getattr(counts, name))
                for name in ("held", "passed"):
                    aligned.add_metric([*labels, name], getattr(counts, name))
            if isinstance(runner, OrderedRunner) and not runner.stage.arrivals:
                status = runner.status.status
                intake.add_metric([*labels, "read"], status.counts.get("committed", 0))
                intake.add_metric([*labels, "malformed"], status.malformed)
        if (budget := getattr(each, "budget", None)) is not None:
            used.add_metric(labels, budget.memory)
    yield from (running, lag, behind, intake, aligned, used)


def view_states(partitions: Iterable[Partition]) -> Iterator[ViewState]:
    """The views that run in partitions.

    Args:
        partitions: of a worker.
    """
    for partition in partitions:
        for runner in list(partition.runners.values()):
            if isinstance(runner.step, StreamStep):
                for view in list(runner.step.views.values()):
                    yield ViewState(view.name, partition.source.partition, view.task)


def stage_runners(partitions: Iterable[Partition]) -> Iterator[OrderedRunner]:
    """The runners of views with workers.

    Args:
        partitions: of a worker.
    """
    for partition in partitions:
        for runner in list(partition.runners.values()):
            if isinstance(runner, OrderedRunner):
                yield runner


def databases(partitions: Iterable[Partition]) -> dict[str, str | None]:
    """View → what the database that it is lent said, None if that is there.

    Args:
        partitions: of a worker.
    """
    found: dict[str, str | None] = {}
    partitions = list(partitions)
    for partition in partitions:
        if isinstance(partition, OrderedPartition) and partition.away:
            found[partition.stage.view.name] = partition.away
    for runner in stage_runners(partitions):
        if runner.lent is not None:
            # Without work nobody asks it again.
            away = runner.lent.away if runner.core.in_hand else None
            found[runner.stage.view.name] = found.get(runner.stage.view.name) or away
    return found


def _by_workers(runners: Iterable[OrderedRunner]) -> dict[tuple[str, int], Counts]:
    """What the second stages of views have passed over or hold, which their first ones do not know;
    by view and partition."""
    found: dict[tuple[str, int], Counts] = {}
    for runner in runners:
        status = runner.status.status
        found[runner.stage.view.name, runner.source.partition] = Counts(
            failed=status.failed, dead=status.dead, unrouted=status.unrouted,
            parked=runner.effects.held,
        )  # fmt: skip
    return found


def _of_views(
    views: Iterable[ViewState], runners: Iterable[OrderedRunner], grown: Growth
) -> Iterator[Metric]:
    beyond = _by_workers(runners)
    at = ["view", "partition"]
    events = CounterMetricFamily(
        "sequitur_events",
        "Events of a view by what became of them, durable with its progress.",
        labels=[*at, "outcome"],
    )
    held = GaugeMetricFamily(
        "sequitur_held_events", "Events of a view that are held, by where.", labels=[*at, "place"]
    )
    streams = GaugeMetricFamily(
        "sequitur_held_streams", "Streams that wait for an event, or are parked.", labels=at
    )
    oldest = GaugeMetricFamily(
        "sequitur_oldest_gap_seconds",
        "For how long the oldest gap of a view has been open; 0 without one.",
        labels=at,
    )
    halted = GaugeMetricFamily(
        "sequitur_view_halted", "Whether a view is halted: 1, or 0.", labels=at
    )
    now = wall()

    def add(labels: list[str], counts: Counts, names: Iterable[str]) -> None:
        for name in names:
            count, where = getattr(counts, name), [*labels, name]
            if name in PLACES:
                held.add_metric(where, count)
            else:
                # What was put back was dead, and may be so again by now.
                count += counts.redriven if name == "dead" else 0
                events.add_metric(where, grown.of(tuple(where), count))

    for view in views:
        labels, state = [view.name, str(view.partition)], view.task.state
        counts = state.counts + beyond.pop((view.name, view.partition), Counts())
        add(labels, counts, (f.name for f in fields(Counts)))
        waiting = list(state.waiting.items())
        streams.add_metric(labels, len(waiting))
        since = min((p.since for s, p in waiting if s not in state.parked and p.since), default=now)
        oldest.add_metric(labels, max(0, now - since) / 1000)
        halted.add_metric(labels, float(view.task.halted is not None))
    for (view_name, partition), counts in beyond.items():
        add([view_name, str(partition)], counts, ("failed", "dead", "unrouted", "parked"))
    yield from (events, held, streams, oldest, halted)


def _of_stages(runners: Iterable[OrderedRunner]) -> Iterator[Metric]:
    work = GaugeMetricFamily(
        "sequitur_work",
        "Events of a view with workers: with a worker, staged until their turn, not begun.",
        labels=["view", "partition", "state"],
    )
    halted = GaugeMetricFamily(
        "sequitur_work_halted",
        "Whether a view with workers is halted: 1, or 0.",
        labels=["view", "partition"],
    )
    for runner in runners:
        labels = [runner.stage.view.name, str(runner.source.partition)]
        for state, count in zip(
            ("waiting", "running", "staged"), runner.core.standing, strict=True
        ):
            work.add_metric([*labels, state], count)
        halted.add_metric(labels, float(runner.status.status.halted is not None))
    yield from (work, halted)
