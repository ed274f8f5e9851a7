"""Show results: tables on a terminal, and the same tables as a page."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

from rich import box
from rich.table import Table

from bench.goals import GOALS, Goal, verdicts
from bench.results import OF_A_TABLE, Figure, Result
from bench.scenarios.scenario import Column, Scenario

NONE = "–"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of text; the first column is words, the others are figures."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def rich(self, title: str = "") -> Table:
        """For a terminal."""
        table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD)
        for number, name in enumerate(self.head):
            table.add_column(name, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """For a page."""
        line = "|" + "|".join(["---"] + ["---:"] * (len(self.head) - 1)) + "|"
        rows = [self.head, *self.rows]
        head, *body = ("| " + " | ".join(row) + " |" for row in rows)
        return "\n".join([head, line, *body])


def number(figure: float, digits: int) -> str:
    """A figure for a reader: large ones to three places and with commas."""
    if not digits and figure >= 1000:
        step = 10 ** (len(str(int(figure))) - 3)
        figure = round(figure / step) * step
    return f"{figure:,.{digits}f}"


def spread(figure: Figure | None, digits: int) -> str:
    """The median, with the lowest and highest where it was measured more than once."""
    if figure is None:
        return NONE
    text = number(figure.median, digits)
    if figure.repeats > 1 and figure.highest != figure.lowest:
        text += f" ({number(figure.lowest, digits)}–{number(figure.highest, digits)})"
    return text


def grid(scenario: Scenario, result: Result, *, long: bool = False) -> Grid:
    """A scenario's table. long: with the subjects' long names, for a page."""
    rows = []
    known = [s for s in scenario.subjects if s in result.subjects()]
    for subject in known + [s for s in result.subjects() if s not in known]:
        cells = [_cell(column, result, subject) for column in scenario.columns]
        rows.append([scenario.subjects.get(subject, subject) if long else subject, *cells])
    return Grid(["", *(column.title for column in scenario.columns)], rows)


def _cell(column: Column, result: Result, subject: str) -> str:
    if column.base is None and not column.over:
        return spread(result.figure(subject, column.value), column.digits)
    if column.base is None:
        ratio = result.over(subject, column.value, column.over)
    else:
        ratio = result.ratio(subject, column.base, column.value)
    return NONE if ratio is None else number(ratio, column.digits)


def goals(results: Mapping[str, Result], of: Iterable[Goal] = GOALS) -> Grid:
    """Every goal with what was measured."""
    rows = [
        [
            verdict.goal.text,
            verdict.goal.limit,
            NONE if verdict.figure is None else number(verdict.figure, verdict.goal.digits),
            verdict.word,
        ]
        for verdict in verdicts(results, of)
    ]
    return Grid(["goal", "bound", "measured", ""], rows)


def machine_grid(facts: Mapping[str, str]) -> Grid:
    """Name → fact, as `machine.facts` and others say."""
    return Grid(["machine and software", ""], [[*each] for each in facts.items()])


def conditions(result: Result) -> str:
    """Under what a scenario was measured, in a line."""
    facts = result.facts
    absent = f" Not measured: {facts['absent']}." if facts.get("absent") else ""
    return (
        f"{facts['date']}, Sequitur {facts['Sequitur']}; {int(facts['events']):,} events,"
        f" repeats: {facts['repeats']}; load average {facts['load before']} before and"
        f" {facts['load after']} after.{absent}"
    )


def page(
    scenarios: Iterable[Scenario],
    results: Mapping[str, Result],
    of: Iterable[Goal] = GOALS,
    head: str | None = None,
    tail: str | None = None,
) -> str:
    """The whole page, in Markdown. of: the goals. head, tail: what it begins and ends with."""
    measured = [scenario for scenario in scenarios if scenario.name in results]
    if not measured:
        raise ValueError("nothing was measured")
    newest = max((results[s.name] for s in measured), key=lambda result: result.facts["date"])
    shown = goals(results, of).markdown()
    parts = [_HEAD if head is None else head, "## Goals", shown, _RATIOS]
    for scenario in measured:
        result = results[scenario.name]
        parts += [f"## {scenario.title}", grid(scenario, result, long=True).markdown()]
        elsewhere = _elsewhere(result.facts, newest.facts)
        parts += [wrapped(scenario.how), wrapped(f"*{conditions(result)}{elsewhere}*")]
        if problems := result.problems():
            parts += ["Void samples:", "\n".join(f"- {_one_line(text)}" for text in problems)]
    machine = {k: v for k, v in newest.facts.items() if k not in _OF_A_RUN}
    parts += ["## Where", machine_grid(machine).markdown(), _PEERS if tail is None else tail]
    return "\n\n".join(filter(None, parts)) + "\n"


def _elsewhere(facts: Mapping[str, str], shown: Mapping[str, str]) -> str:
    """What is said of a table that was measured on another machine than the one shown."""
    others = [
        f"{name} {facts.get(name)}" for name in OF_A_TABLE if facts.get(name) != shown.get(name)
    ]
    return f" Another machine: {', '.join(others)}." if others else ""


def _one_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def wrapped(prose: str) -> str:
    return fill(prose, 100, break_long_words=False, break_on_hyphens=False)


_OF_A_RUN = ("date", "Sequitur", "events", "repeats", "absent", "load before", "load after")
_HEAD = """\
# Benchmarks

`scripts/bench engine` writes the tables of this page. It measures Sequitur and its alternatives in
turn, on one broker. `--install` installs the alternatives first; `--help` shows all options.

All do the same job. Events of 5,000 streams arrive on one topic of 4 partitions, keyed by stream.
10% are late by a few events of their own stream, and 5% arrive twice. The output topic has to hold
each stream's events once, in sequence, without a gap, and the state has to survive a restart. Every
output is audited; a wrong output gets no figure."""
_RATIOS = """\
Only ratios of medians of one table are comparable: absolute figures depend on the machine,
and broker, contestant and bench share its cores. Tables show the median (lowest–highest of
the repeats). A goal is met, or not, where all repeats say so; else it is at the bound."""
_PEERS = """\
## The peers

Their programs are in `apps/bench/peers`. What is not said here is as each has it by default.

- *The bare loop*: an aiokafka consumer and producer, one batch of 8,000 after the other, so that it
  waits while the broker commits; RocksDB, changelog and transactions like Sequitur's, but no views,
  handlers, counts, policies or recovery, and no care for what a crash leaves behind.
- *Kafka Streams*: a processor with two RocksDB stores that have changelogs, one thread, linger
  20 ms, batches of 256 KB, 5,000 records a poll; it reads no more of an event than its sequence.
- *Quix Streams*: a stateful function that may yield several events, commit interval 1 s, linger
  20 ms.
- *Flink*: a keyed process function with a value and a map state on the heap, one slot in a process
  of its own unless said otherwise, 2 GB of heap, objects reused, a checkpoint every 500 ms,
  transactional sink with linger 20 ms and batches of 256 KB, 5,000 records a poll.
- Of the flights, *Kafka Streams* (`Flights.java`) has for each view a store of progress and numbers
  in one row of an aircraft, and one of what waits; *Flink* (`FlightsFlink.java`) has three states
  on the heap for each. Both read a movement once for the three, and make the rows by
  `FlightRows.java`.
- *Stock faust-streaming*: an agent and two RocksDB tables, linger 20 ms; at least once only, since
  in its exactly-once mode what is sent to a topic that it does not read is outside of the
  transaction. It gets a tenth of the events."""
