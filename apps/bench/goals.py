"""What the project has set itself, and how far the figures are from it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.bench import FULL
from bench.results import Result
from bench.scenarios import flights, grid, latency, memory, recovery, views, waiting


@dataclass(frozen=True, slots=True)
class Goal:
    """text: what is to be reached. of: → the figure. bound: at least, or else below. full: events
    of a run that counts."""

    text: str
    scenario: str
    of: Callable[[Result], float | None]
    bound: float
    at_least: bool = True
    digits: int = 2
    full: int = FULL

    def met(self, figure: float) -> bool:
        return figure >= self.bound if self.at_least else figure < self.bound

    @property
    def limit(self) -> str:
        return f"{'≥' if self.at_least else '<'} {self.bound:,g}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal beside what was measured. word: met, NOT met, at the bound, or why none of them."""

    goal: Goal
    figure: float | None
    word: str


def ratio(subject: str, base: str, value: str) -> Callable[[Result], float | None]:
    """A subject's median by another's."""
    return lambda result: result.ratio(subject, base, value)


def figure(subject: str, value: str) -> Callable[[Result], float | None]:
    """A subject's median."""

    def of(result: Result) -> float | None:
        found = result.figure(subject, value)
        return found.median if found else None

    return of


def _by_stock_faust(result: Result) -> float | None:
    ours = result.figure("sequitur", "exactly_once")
    theirs = result.figure("faust", "at_least_once")
    return ours.median / theirs.median if ours and theirs else None


GOALS = (
    Goal(
        "exactly once, × Kafka Streams' exactly once",
        "throughput",
        ratio("sequitur", "kafka-streams", "exactly_once"),
        2,
    ),
    Goal(
        "exactly once, × the bare loop",
        "throughput",
        ratio("sequitur", "limit", "exactly_once"),
        0.8,
    ),
    Goal("exactly once, × stock Faust's at least once", "throughput", _by_stock_faust, 35),
    Goal(
        "decoding and one Upsert, × Kafka Streams with Jackson",
        "upsert",
        ratio("sequitur", "kafka-streams", "rate"),
        1,
    ),
    *(
        Goal(
            f"in the worst shape of disorder, exactly once, × {title}",
            "grid",
            lambda result, names=names: grid.worst(result, names),  # type: ignore[misc]
            bound,
        )
        for (title, names), bound in zip(grid.OTHERS.items(), (0.8, 2, 1), strict=True)
    ),
    *(
        Goal(
            f"the same of `--processes 2`, × {title}",
            "grid",
            lambda result, names=names: grid.worst(result, names, "ours2"),  # type: ignore[misc]
            bound,
        )
        for (title, names), bound in zip(grid.ON_TWO.items(), (1.7, 0.8, 2, 1), strict=True)
    ),
    Goal(
        "the flights' backlog, movements/s",
        "flights",
        figure(flights.OURS, "rate"),
        42_000,
        digits=0,
    ),
    Goal(
        "the flights' backlog, microseconds of CPU a movement",
        "flights",
        figure(flights.OURS, "cpu"),
        25,
        at_least=False,
        digits=1,
    ),
    *(
        Goal(
            f"the flights' backlog, × {title}",
            "flights",
            lambda result, title=title: flights.by_the_better(result, title),  # type: ignore[misc]
            bound,
        )
        for title, bound in (("Kafka Streams", 2), ("Flink", 1))
    ),
    *(
        Goal(
            f"the flights' backlog, two processes, × {title}",
            "flights",
            lambda result, title=title: flights.by_the_better(  # type: ignore[misc]
                result, title, flights.OURS_ON_TWO
            ),
            bound,
        )
        for title, bound in (("Kafka Streams", 2), ("Flink", 1))
    ),
    Goal(
        "a stream in reverse blocks of 5,000, × its rate in order",
        "waiting",
        ratio(waiting.IN_ORDER, waiting.REVERSED, "all"),
        1 / 3,
    ),
    Goal(
        "time of three views, × one view",
        "views",
        ratio(views.THREE, views.ONE, "seconds"),
        2.2,
        at_least=False,
    ),
    Goal(
        "1 million idle streams, MB beyond the empty worker",
        "memory",
        figure(memory.IDLE, "beyond"),
        200,
        at_least=False,
        digits=0,
    ),
    Goal(
        "100,000 waiting events, MB beyond the empty worker",
        "memory",
        figure(memory.WAITING, "beyond"),
        300,
        at_least=False,
        digits=0,
    ),
    Goal(
        "recovery from the changelog, rows/s",
        "recovery",
        figure(recovery.SUBJECT, "rate"),
        200_000,
        digits=0,
    ),
    *(
        Goal(
            f"{value} latency at a tenth of the throughput, ms",
            "latency",
            figure(latency.OURS, value),
            bound,
            at_least=False,
            digits=1,
        )
        for value, bound in (("p50", 12), ("p99", 25))
    ),
    *(
        Goal(
            f"{value} latency, × that of {peer}",
            "latency",
            ratio(latency.OURS, peer, value),
            1,
            at_least=False,
        )
        for peer in (latency.STREAMS_100, latency.STREAMS_10)
        for value in ("p50", "p99")
    ),
)


def verdicts(results: Mapping[str, Result], goals: Iterable[Goal] = GOALS) -> list[Verdict]:
    """Every goal, measured or not."""
    return [_verdict(goal, results.get(goal.scenario)) for goal in goals]


def _verdict(goal: Goal, result: Result | None) -> Verdict:
    figure = goal.of(result) if result else None
    if result is None or figure is None:
        return Verdict(goal, None, "not measured")
    events = int(result.facts["events"])
    if events < goal.full:
        return Verdict(goal, figure, f"no verdict: a trial with {events:,} events")
    each = [found for turn in result.turns() if (found := goal.of(turn)) is not None]
    return Verdict(goal, figure, word(figure, each, goal.met))


def word(figure: float, each: Sequence[float], met: Callable[[float], bool]) -> str:
    """What to say of a figure. each: what the repeats had; their range is the noise."""
    if len(each) < 2:
        return "no verdict: measured once"
    # The worst of medians may be better than the worst of each repeat.
    if len({met(found) for found in (figure, *each)}) > 1:
        return "at the bound"
    return "met" if met(figure) else "NOT met"
