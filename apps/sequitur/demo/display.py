"""Show how the demo is getting on: a live table on a terminal, plain lines elsewhere."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from rich import box
from rich.console import Console
from rich.live import Live
from rich.table import Table

from topology import Counts

_PLACES = ("in order", "waiting", "duplicates", "skipped", "late", "failed")
_LINE_EVERY = 2.0  # seconds between plain lines


@dataclass(frozen=True)
class Snapshot:
    """Where everything is at a moment.

    sent: messages acknowledged by Kafka, of `total`. views: view → where its events are. stored:
    rows in the read store. note: what the demo is waiting for.
    """

    sent: int
    total: int
    views: Mapping[str, Counts] = field(default_factory=dict)
    stored: int = 0
    note: str = ""


def figures(counts: Counts) -> tuple[int, ...]:
    """Return a view's figures in the order in which the table shows them."""
    return (
        counts.processed + counts.passed,
        counts.waiting,
        counts.duplicate,
        counts.skipped,
        counts.late,
        counts.failed,
    )


def line(snapshot: Snapshot, seconds: float) -> str:
    """One line of text; of the views, the figures of the one that is furthest behind."""
    parts = [f"{seconds:5.0f} s  sent {snapshot.sent:,} of {snapshot.total:,}"]
    if snapshot.views:
        behind = min(snapshot.views.values(), key=lambda counts: counts.processed + counts.passed)
        in_order, waiting, duplicates, skipped, late, _ = figures(behind)
        parts += [f"in order {in_order:,}", f"waiting {waiting:,}", f"duplicates {duplicates:,}"]
        parts += [f"skipped {skipped:,}"] + ([f"late {late:,}"] if late else [])
    parts.append(f"in the read store {snapshot.stored:,} rows")
    return ", ".join(parts) + (f" ({snapshot.note})" if snapshot.note else "")


def live_table(snapshot: Snapshot, seconds: float) -> Table:
    """A table with a row per view, what was sent above it and what is stored below."""
    table = Table(
        title=f"{seconds:.0f} s, sent {snapshot.sent:,} of {snapshot.total:,}",
        caption=f"in the read store {snapshot.stored:,} rows\n{snapshot.note}",
        box=box.SIMPLE_HEAD,
        min_width=72,
    )
    table.add_column("view", no_wrap=True)
    for place in _PLACES:
        table.add_column(place, justify="right", no_wrap=True)
    for name, counts in snapshot.views.items():
        table.add_row(name, *(f"{figure:,}" for figure in figures(counts)))
    return table


class Display:
    """A context in which snapshots are shown; `say` prints a line that stays."""

    def __init__(self, output: TextIO | None = None) -> None:
        self.console = Console(file=output, highlight=False, soft_wrap=True)
        self._live = Live(console=self.console, auto_refresh=False, transient=True)
        self._began = self._last = time.monotonic()

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    @property
    def seconds(self) -> float:
        """Seconds since the display was made."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False)
        self.console.file.flush()

    def show(self, snapshot: Snapshot) -> None:
        """Show a snapshot: at once on a terminal, every other second elsewhere."""
        if self.console.is_terminal:
            if not self._live.is_started:
                self._live.start()
            self._live.update(live_table(snapshot, self.seconds), refresh=True)
        elif time.monotonic() - self._last >= _LINE_EVERY:
            self._last = time.monotonic()
            self.say(line(snapshot, self.seconds))

    def done(self, snapshot: Snapshot) -> None:
        """Take the live table away and leave a line with the last snapshot."""
        self._live.stop()
        self.say(line(snapshot, self.seconds))
