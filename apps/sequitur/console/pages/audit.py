"""Audit: every message is in one place, and once: run with progress, results with links."""

from typing import Any

from nicegui import ui

from sequitur.console.site import Site, stream_link, text_table
from topology.model.counted import counted
from topology.model.printable import printable

SHOWN = 200
"""Violations that are listed, the first ones."""
_HEADS = {
    "view": "view", "stream": "stream", "sequence": "sequence", "where": "where", "what": "what",
}  # fmt: skip


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/audit")
    def page() -> None:
        with site.page("Audit"):
            ui.label(
                "It reads all topics up to their ends, and disturbs no worker. With large topics "
                "it takes minutes."
            )
            views = ui.select(
                {"": "all views", **{name: name for name in site.topology.views}},
                value="", label="Of",
            )  # fmt: skip
            # What handlers do besides yielding is done again: that takes the token.
            contents = ui.checkbox("Run the handlers again, and compare what they yield")
            contents.set_enabled(site.session() is not None)

            def words() -> list[str]:
                only = ["--view", str(views.value)] if views.value else []
                acts = site.session() is not None
                again = ["--contents"] if contents.value and acts else []
                return ["faust", "-A", site.place, "audit", *only, *again, "--json"]

            site.jobs.show("audit", words, show)


def show(found: dict[str, Any]) -> None:
    """Show what `faust audit --json` found."""
    bad = [f"{counted(found['number'], 'violation')}"] if found["number"] else []
    bad += found["bad_news"]
    ui.label(f"Not in order: {', '.join(bad)}" if bad else "All is in order.").classes(
        "bad" if bad else "good"
    )
    for line in (*found["pending"], found["not_proved"], *found["remarks"]):
        if line:
            ui.label(printable(line, 600))
    counts = ("received", "processed", "duplicate", "waiting", "late", "failed", "parked", "dead")
    rows = [
        {"view": each["name"], "streams": f"{each['streams']:,}"}
        | {name: f"{each['counted'][name]:,}" for name in counts}
        for each in found["views"]
    ]
    heads = {name: name for name in ("view", "streams", *counts)}
    text_table("Counts", heads, rows, numbers=("streams", *counts))
    if found["violations"]:
        with ui.element("h2"):
            ui.label("Violations")
        rows = [_row(each) for each in found["violations"][:SHOWN]]
        text_table("Violations", _HEADS, rows, link="stream")
        if found["number"] > len(rows):
            ui.label(f"and {found['number'] - len(rows):,} more")


def _row(violation: dict[str, Any]) -> dict[str, Any]:
    stream, place = violation["stream"], violation["place"] or {}
    return {
        "view": violation["view"] or "", "sequence": _text(violation["sequence"]),
        "stream": "" if stream is None else printable(stream, 60),
        "href": "" if stream is None else stream_link(stream),
        "where": " ".join(map(_text, place.values())),
        "what": printable(violation["what"], 400),
    }  # fmt: skip


def _text(value: Any) -> str:
    return "" if value is None else printable(value, 100)
