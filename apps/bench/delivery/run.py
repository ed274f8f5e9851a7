"""Run the bench of delivery: measure, show, write the page."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from apps.bench import machine
from apps.bench.capture import captures
from apps.bench.delivery.backlog import backlog
from apps.bench.delivery.latency import latency
from apps.bench.delivery.page import (
    FORMS,
    backlog_grid,
    captures_grid,
    goals_grid,
    latency_grid,
    page,
)
from apps.bench.delivery.stage import SETTINGS, stage

WRITERS = (1, 16)
"""At a time, in turn."""


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """n: messages of the backlog. rate: transactions/s for latency, of which there are `seconds`
    seconds; writers capture for a third of that, in each form."""

    n: int
    rate: int
    seconds: float
    folder: Path
    page: Path
    writers: tuple[int, ...] = WRITERS


def run(options: DeliveryOptions, console: Console) -> int:
    """Returns the exit status."""
    options.folder.mkdir(parents=True, exist_ok=True)
    before = machine.load()
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="delivery-") as folder,
        stage(Path(folder)) as where,
    ):
        url, log_url = where.database("captures"), where.database("log")
        captured = [
            captures(url, log_url, writers, form, options.seconds / 3)
            for writers in options.writers
            for form in FORMS
        ]
        console.print(captures_grid(captured).rich("Capture"))
        late = latency(where, max(10, round(options.rate * options.seconds)), options.rate)
        console.print(latency_grid(late).rich("All the way"))
        drained = backlog(where, options.n)
        console.print(backlog_grid(drained).rich("A backlog"))
    console.print(goals_grid(drained, late).rich("Goals"))
    facts = machine.facts() | {
        "PostgreSQL": "18, " + ", ".join(f"{name}={value}" for name, value in SETTINGS.items()),
        "load before and after": f"{before}, {machine.load()}",
    }
    options.page.write_text(page(captured, drained, late, facts))
    console.print(f"written: {options.page}")
    return 0
