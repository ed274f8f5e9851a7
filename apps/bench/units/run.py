"""Run the bench of units: measure on a broker, check every order, show the table."""

import asyncio
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.engine import broker_of
from bench.options import Options
from bench.units.measure import Measured, idle_units, partition_bound, shared, waiting_units

CONSUMERS = 50
HAND_OVER = 0.005
"""Seconds, at most, at p99."""
POISONED = 0.02
"""What one poisoned unit of 1,000 may cost the others."""
PAIRS = 6
"""Runs with and without it, at least, in turns: one pair alone differs by more than that."""
IDLE = 50.0
"""MB that 100,000 idle units may take."""


def run(options: Options, console: Console) -> int:
    """Returns the exit status: 0 where every order was right."""
    with broker_of(options, console) as address:
        return asyncio.run(_measure(options, address, console))


async def _measure(options: Options, broker: str, console: Console) -> int:
    table = Table("measurement", "figure", "goal")
    wrong: list[str] = []

    async def rate(units: int, consumers: int, messages: int, poisoned: bool = False) -> Measured:
        runs = [
            await shared(broker, messages, units, consumers, poisoned)
            for _ in range(options.repeats)
        ]
        for each in runs:
            wrong.extend(each.wrong)
        rates = [each.rate for each in runs]
        hand_over = [second for each in runs for second in each.hand_over]
        return Measured(median(rates), hand_over)

    few = max(options.events // 5, 200)
    bound = await partition_bound(broker, few)
    table.add_row("one consumer of the partition, 1 ms", f"{bound.rate:,.0f}/s", "")
    for units in (1, 10, 1_000):
        found = await rate(units, CONSUMERS, few if units == 1 else options.events)
        table.add_row(
            f"{units:,} units, {CONSUMERS} consumers, 1 ms",
            f"{found.rate:,.0f}/s, {found.rate / bound.rate:.1f} ×",
            "",
        )
        console.print(f"{units} units: {found.rate:,.0f}/s")
    calm = await rate(1, 2, max(few, 2_000))
    if len(calm.hand_over) > 1:
        cuts = quantiles(calm.hand_over, n=100)
        table.add_row(
            f"handing a unit over, {len(calm.hand_over):,} times",
            f"p50 {cuts[49] * 1000:.1f} ms, p99 {cuts[98] * 1000:.1f} ms",
            f"p99 < {HAND_OVER * 1000:.0f} ms {_met(cuts[98] < HAND_OVER)}",
        )
    # Side by side in time, so that what else the machine does counts for both.
    costs = []
    for turn in range(max(options.repeats, PAIRS)):
        rates = {}
        for bad in (True, False) if turn % 2 else (False, True):
            found = await shared(broker, options.events, 1_000, CONSUMERS, poisoned=bad)
            wrong += found.wrong
            rates[bad] = found.rate
        costs.append(1 - rates[True] / rates[False])
    cost = median(costs)
    table.add_row("one poisoned unit of 1,000 costs the others", f"{cost:.1%}",
                  f"< {POISONED:.0%} {_met(cost < POISONED)}")  # fmt: skip
    idle, waiting = idle_units(100_000), waiting_units(100_000)
    table.add_row("100,000 idle units", f"{idle:.1f} MB", f"< {IDLE:.0f} MB {_met(idle < IDLE)}")
    table.add_row("100,000 units with a message of 100 bytes", f"{waiting:.0f} MB", "")
    console.print(f"{options.events} messages, load {machine.load()}")
    console.print(table)
    for line in wrong:
        console.print(line)
    return 1 if wrong else 0


def _met(met: bool) -> str:
    return "met" if met else "not met"
