"""Figures of a run as tables, on a terminal and as docs/benchmarks-delivery.md."""

from collections.abc import Callable
from statistics import median

from bench.delivery.backlog import Backlog
from bench.delivery.captures import Rate
from bench.delivery.latency import WAYS, Latency
from bench.goals import word
from bench.report import Grid, machine_grid, number, wrapped

_WAYS = dict(zip(WAYS, ("over Kafka", "over HTTP", "in two phases"), strict=True))
FORMS = ("none", "one", "two")
RATE, P99 = 20_000, 250
"""Figures of Sequin's own benchmark: messages/s on four cores, and milliseconds (253 there)."""


def captures_grid(found: list[Rate]) -> Grid:
    """Medians of the repeats."""
    by_writers: dict[int, dict[str, list[float]]] = {}
    for each in found:
        of = by_writers.setdefault(each.writers, {})
        of.setdefault(each.form, []).append(each.per_second)
    rows = []
    for writers, forms in by_writers.items():
        rates = {form: median(found) for form, found in forms.items()}
        name = f"{writers} writer{'s' if writers > 1 else ''}"
        ratio = number(rates["one"] / rates["none"], 2)
        rows.append([name, *(number(rates[form], 0) for form in FORMS), ratio])
    head = ["without capture", "with capture", "into another database", "with to without"]
    return Grid(["transactions/s", *head], rows)


def backlog_grid(all_of: list[Backlog]) -> Grid:
    """The repeat that is in the middle."""
    found = sorted(all_of, key=lambda each: each.rate)[len(all_of) // 2]
    row = [
        f"{found.messages:,} messages",
        number(found.rate, 0),
        number(found.first, 0),
        number(found.last, 0),
        number(found.seconds, 1),
    ]
    return Grid(["messages/s", "over all", "first fifth", "last fifth", "seconds"], [row])


def latency_grid(found: list[Latency]) -> Grid:
    """Of each way and rate medians of the repeats, and the longest of all."""
    alike: dict[tuple[str, int], list[Latency]] = {}
    for each in found:
        alike.setdefault((each.way, each.asked), []).append(each)
    rows = [
        [
            f"{_WAYS[way]}, {number(asked, 0)} transactions/s",
            number(median(each.rate for each in runs), 0),
            number(median(each.p50 for each in runs), 0),
            number(median(each.p99 for each in runs), 0),
            number(max(each.most for each in runs), 0),
        ]
        for (way, asked), runs in alike.items()
    ]
    return Grid(["ms from commit to commit", "came about", "p50", "p99", "longest"], rows)


def goals_grid(backlogs: list[Backlog], latency: list[Latency]) -> Grid:
    """Of repeats the medians; of latencies those over Kafka, of each repeat the worst rate's."""
    late: dict[int, list[float]] = {}
    for each in latency:
        if each.way == WAYS[0]:
            late.setdefault(each.asked, []).append(each.p99)
    worst = [max(turn) for turn in zip(*late.values(), strict=False)]
    rates = [each.rate for each in backlogs]
    slower = [each.last / each.first for each in backlogs]
    return Grid(
        ["goal", "bound", "measured", ""],
        [
            _goal("relay, messages/s", f"above {RATE:,}", rates, 0, lambda each: each > RATE),
            _goal("commit to commit, p99 ms", f"below {P99}", worst, 0, lambda each: each < P99),
            _goal("last fifth of the backlog to the first", "at least 0.8", slower, 2,
                  lambda each: each >= 0.8),
        ],
    )  # fmt: skip


def _goal(
    what: str, bound: str, each: list[float], digits: int, met: Callable[[float], bool]
) -> list[str]:
    figure = median(each)
    return [what, bound, number(figure, digits), word(figure, each, met)]


def page(
    captures: list[Rate], backlog: list[Backlog], latency: list[Latency], facts: dict[str, str]
) -> str:
    """The whole page, in Markdown."""
    parts = [
        _HEAD,
        "## Goals",
        goals_grid(backlog, latency).markdown(),
        "## Capture",
        captures_grid(captures).markdown(),
        wrapped(
            "A transaction inserts a row of 200 bytes and captures a message of the same, or none. "
            "Writers are processes that share 100,000 streams; commits wait for the disk. Into "
            "another database means by two-phase commit. What capture costs is what it writes, a "
            "row with three index entries and a counter: transactions that write the same to plain "
            "tables, by statements of their own, are no faster."
        ),
        "## A backlog",
        backlog_grid(backlog).markdown(),
        wrapped(
            "One relay moves a log that was filled before to a topic of 4 partitions, and deletes "
            "what is acknowledged. The clock runs from the first message that Kafka has to the "
            "empty log."
        ),
        "## All the way",
        latency_grid(latency).markdown(),
        wrapped(
            "One producer commits a row and a message at a time; relay, Kafka and feed bring it "
            "to an inbox, whose consumer writes a row. From when the producer's commit returned to "
            "when the consumer's did; the clock is the same. It is measured after 5 s at that rate."
            " Over HTTP the relay posts to the inbox. In two phases the log is in another database"
            " than the producer's row, and the inbox in another one than the consumer's. Each"
            " consumer takes what is there, up to 500 messages, in one transaction."
        ),
        "## Where",
        machine_grid(facts).markdown(),
    ]
    return "\n\n".join(parts) + "\n"


_HEAD = """\
# Benchmarks of delivery

`scripts/bench delivery` writes this page. It measures [delivery](delivering.md) with
PostgreSQL and a Kafka broker on the same machine, which share its cores. `--n` sets the
backlog. `--part captures`, `latency` or `backlog` measures one of the three parts and keeps
the figures of the others, if they are of the same commit. Figures are medians of the repeats.
The bounds of rate and p99 are what
Sequin (sequinstream.com/docs/performance), which captures changes of PostgreSQL for Kafka,
publishes of itself (the page of February 2026; database and brokers have machines of their own):
20,000 changes/s of 200 bytes on 4 cores, from a database that is written to meanwhile, and 253 ms
at its highest rate, on 16. Here the log was filled before, and the rates are those of the table.
There Debezium has 6,000 changes/s and 499 ms on Kafka Connect, and as a server of its own, on 4
cores, 20,000 changes/s of 100 bytes."""
