"""Run the bench of delivery: measure, show, write the page."""

import tempfile
from pathlib import Path

from rich.console import Console

from bench import machine
from bench.delivery.backlog import backlog
from bench.delivery.captures import captures
from bench.delivery.kept import PARTS, Kept
from bench.delivery.latency import WAYS, latency
from bench.delivery.page import (
    FORMS,
    backlog_grid,
    captures_grid,
    goals_grid,
    latency_grid,
    page,
)
from bench.delivery.stage import SETTINGS, Stage, stage
from bench.options import Options

WRITERS = (1, 16)
"""At a time, in turn."""
SHARES = (0.1, 0.3, 1.0)
"""Of the rate, at which latency is measured."""


def run(options: Options, console: Console) -> int:
    """Returns the exit status."""
    options.folder.mkdir(parents=True, exist_ok=True)
    file = options.folder / "delivery.json"
    kept = Kept.load(file, machine.checkout())
    with (
        tempfile.TemporaryDirectory(dir=options.folder, prefix="delivery-") as folder,
        stage(Path(folder)) as where,
    ):
        for part in options.parts or PARTS:
            before = machine.load()
            _measure(part, where, options, kept, console)
            kept.loads[part] = f"{before}, {machine.load()}"
            kept.save(file)
    if kept.missing:
        console.print(f"not measured yet: {', '.join(kept.missing)}; no page is written")
        return 0
    console.print(goals_grid(kept.backlog, kept.latency).rich("Goals"))
    facts = machine.facts() | {
        "PostgreSQL": "18, " + ", ".join(f"{name}={value}" for name, value in SETTINGS.items()),
    }
    facts |= {f"load before and after {part}": kept.loads[part] for part in PARTS}
    options.page.write_text(page(kept.captures, kept.backlog, kept.latency, facts))
    console.print(f"written: {options.page}")
    return 0


def _measure(part: str, where: Stage, options: Options, kept: Kept, console: Console) -> None:
    def told(what: str) -> None:
        console.print(f"[dim]{part}: {what}[/dim]")

    if part == "captures":
        kept.captures = []
        for repeat in range(options.repeats):
            url, log_url = where.database("captures"), where.database("log")
            for writers in WRITERS:
                for form in FORMS:
                    told(f"{form}, {writers} writers, repeat {repeat + 1} of {options.repeats}")
                    kept.captures.append(captures(url, log_url, writers, form, options.seconds / 3))
        console.print(captures_grid(kept.captures).rich("Capture"))
    elif part == "latency":
        rates = sorted({max(1, round((options.rate or 1) * share)) for share in SHARES})
        kept.latency = []
        for repeat in range(options.repeats):
            for way in WAYS:
                for rate in rates if way == WAYS[0] else rates[:1]:
                    told(f"{way}, {rate}/s, repeat {repeat + 1} of {options.repeats}")
                    count = max(10, round(rate * options.seconds))
                    kept.latency.append(latency(where, count, rate, way))
        console.print(latency_grid(kept.latency).rich("All the way"))
    else:
        kept.backlog = []
        for repeat in range(options.repeats):
            told(f"{options.events:,} messages, repeat {repeat + 1} of {options.repeats}")
            kept.backlog.append(backlog(where, options.events))
        console.print(backlog_grid(kept.backlog).rich("A backlog"))
