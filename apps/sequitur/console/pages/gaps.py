"""Gaps: a histogram by age, what waits for what and until when, and skip with a preview."""

from typing import Any

from nicegui import ui

from sequitur.console import operations
from sequitur.console.actions import open_dialog
from sequitur.console.charts import BAR
from sequitur.console.histogram import Bar, histogram
from sequitur.console.site import Site, stream_link, text_table
from topology.diagnostics.explain import Ledger, OpenGap
from topology.diagnostics.explain.times import at
from topology.faust.inspection import gaps
from topology.model.counted import counted
from topology.model.printable import printable

MOST, SHOWN = 5000, 200
"""Gaps that are in the histogram, and in the table: the oldest."""
_AGES = {0: "of any age", 1: "1 minute or older", 10: "10 minutes or older", 60: "1 hour or older",
         1440: "1 day or older"}  # fmt: skip
_HEADS = {
    "since": "open since", "view": "view", "stream": "stream", "last": "last handled",
    "missing": "missing", "count": "of them", "waiting": "events wait", "until": "given up",
}  # fmt: skip
Found = tuple[Ledger, list[Bar], int]
"""What the table has, the histogram, and how many gaps that is of."""


async def found_gaps(app: Any) -> Found:
    """Read what the page shows."""
    ledger = await gaps(app, limit=MOST)
    bars, number = histogram(ledger.now, (gap.since for gap in ledger.gaps)), len(ledger.gaps)
    del ledger.gaps[SHOWN:]
    return ledger, bars, number


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/gaps")
    def page() -> None:
        with site.page("Gaps"):
            site.live("gaps", found_gaps, lambda found, _: _show(found))
            with ui.element("h2"):
                ui.label("Skip many")
            with ui.row().classes("items-end"):
                views = list(site.topology.views)
                view = ui.select(views, value=views[0] if views else None, label="View")
                age = ui.select(_AGES, value=10, label="Gaps").style("min-width: 12rem")

                async def skip() -> None:
                    await open_dialog(site, operations.skip_many(str(view.value), age.value or 0))

                ui.button("Skip all of these", on_click=skip).props("outline no-caps")
            ui.label("One stream's gap is skipped on the stream's page.")


def verdict(ledger: Ledger) -> tuple[bool, str]:
    """Whether all is well, as far as the gaps say, and a line on it."""
    if ledger.streams:
        streams = counted(ledger.streams, "gap")
        return False, f"{streams}, with {counted(ledger.sequences, 'missing sequence')}"
    if ledger.troubles or ledger.unread or ledger.unseen:
        return False, "Nothing waits for something that is missing, but:"
    return True, "Nothing is missing."


def _show(found: Found) -> None:
    ledger, bars, number = found
    good, line = verdict(ledger)
    ui.label(line).classes("good" if good else "bad")
    for trouble in ledger.troubles:
        ui.label(printable(str(trouble), 600)).classes("bad")
    for unseen in dict.fromkeys(ledger.unseen):
        ui.label(printable(unseen, 300))
    if ledger.unread:
        ui.label(f"{counted(ledger.unread, 'offset')} not read yet: what is missing may be there.")
    with ui.element("h2"):
        ui.label("By age")
    rows = [
        {"age": bar.age, "count": f"{bar.count:,}", "bar": "", "width": f"{bar.width}%"}
        for bar in bars
    ]
    heads = {"age": "age", "count": "gaps", "bar": ""}
    text_table("By age", heads, rows, numbers=("count",)).add_slot("body-cell-bar", BAR)
    if number < ledger.streams:
        ui.label(f"The bars are of the {number:,} oldest gaps.")
    with ui.element("h2"):
        ui.label("The oldest")
    text_table("Gaps", _HEADS, [_row(gap) for gap in ledger.gaps], link="stream")


def _row(gap: OpenGap) -> dict[str, Any]:
    ranges = [
        f"{each.first}" if each.first == each.last else f"{each.first} to {each.last}"
        for each in gap.missing[:5]
    ]
    more = [f"{gap.ranges - 5} more ranges"] if gap.ranges > 5 else []
    due = "by itself: never" if gap.due is None else at(gap.due)
    return {
        "since": at(gap.since), "view": gap.view, "stream": printable(gap.stream, 60),
        "href": stream_link(gap.stream), "last": str(gap.last),
        "missing": ", ".join([*ranges, *more]) or "in the dead topic",
        "count": "?" if gap.count is None else f"{gap.count:,}", "waiting": f"{gap.waiting:,}",
        "until": "it is parked" if gap.parked else due,
    }  # fmt: skip
