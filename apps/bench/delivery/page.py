"""Figures of a run as tables, on a terminal and as docs/benchmarks-delivery.md."""

from bench.delivery.backlog import Backlog
from bench.delivery.captures import Rate
from bench.delivery.latency import Latency
from bench.report import Grid, machine_grid, number, wrapped

FORMS = ("none", "one", "two")
RATE, P99 = 20_000, 250
"""Published figures of others: messages/s on four cores, and milliseconds."""


def captures_grid(found: list[Rate]) -> Grid:
    by_writers: dict[int, dict[str, float]] = {}
    for each in found:
        by_writers.setdefault(each.writers, {})[each.form] = each.per_second
    rows = [
        [
            f"{writers} writer{'s' if writers > 1 else ''}",
            *(number(rates[form], 0) for form in FORMS),
            number(rates["one"] / rates["none"], 2),
        ]
        for writers, rates in by_writers.items()
    ]
    head = ["without capture", "with capture", "into another database", "with to without"]
    return Grid(["transactions/s", *head], rows)


def backlog_grid(found: Backlog) -> Grid:
    row = [
        f"{found.messages:,} messages",
        number(found.rate, 0),
        number(found.first, 0),
        number(found.last, 0),
        number(found.seconds, 1),
    ]
    return Grid(["messages/s", "over all", "first fifth", "last fifth", "seconds"], [row])


def latency_grid(found: list[Latency]) -> Grid:
    rows = [
        [
            f"{number(each.asked, 0)} transactions/s",
            number(each.rate, 0),
            number(each.p50, 0),
            number(each.p99, 0),
            number(each.most, 0),
        ]
        for each in found
    ]
    return Grid(["ms from commit to commit", "came about", "p50", "p99", "longest"], rows)


def goals_grid(backlog: Backlog, latency: list[Latency]) -> Grid:
    rate, slower = backlog.rate, backlog.last / backlog.first
    late = max(each.p99 for each in latency)
    rows = [
        ["relay, messages/s", f"above {RATE:,}", number(rate, 0), _word(rate > RATE)],
        ["commit to commit, p99 ms", f"below {P99}", number(late, 0), _word(late < P99)],
        ["last fifth of the backlog to the first", "at least 0.8", number(slower, 2),
         _word(slower >= 0.8)],
    ]  # fmt: skip
    return Grid(["goal", "bound", "measured", ""], rows)


def _word(met: bool) -> str:
    return "met" if met else "missed"


def page(
    captures: list[Rate], backlog: Backlog, latency: list[Latency], facts: dict[str, str]
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
the figures of the others. The goals are figures that others publish for this job on four
cores."""
