"""The way of a stream's events: content, what became of each in each view, and the rows."""

from collections.abc import Mapping, Sequence

from nicegui import ui

from sequitur.console.report import card, inputs_of
from sequitur.console.site import Site
from sequitur.console.strip import Segment
from topology.diagnostics.explain import Account
from topology.diagnostics.explain.times import at
from topology.faust.inspection.event_ways import EventWay, EventWays, event_ways
from topology.model.counted import counted
from topology.model.printable import printable

SHOWN = 4_000
"""Characters of a content, and of a row, that are shown."""
Strips = Mapping[str, Sequence[Segment]]
"""View → the strip of the stream."""


def show_events(site: Site, stream: str, accounts: list[Account], strips: Strips) -> None:
    """A part of the stream's page that reads topics when it is asked to: that may take seconds.

    Args:
        site: the console.
        stream: its id.
        accounts: the last ones that the page has; they may change.
        strips: likewise.
    """
    with card("Events"):
        ui.label("What came last, with content, failures, and the rows that came of each event.")
        with ui.row().classes("items-end"):
            number = inputs_of({"sequence": "Sequence; else the last ones"})["sequence"]
            read = ui.button("Read events").props("outline no-caps dense")
        said, body = ui.label().props('role="status"'), ui.element("div").classes("full-width")

        async def show() -> None:
            body.clear()
            text = (number.value or "").strip()
            if not accounts:
                said.set_text("The views are not read yet.")
                return
            if text and not text.removeprefix("-").isdecimal():
                said.set_text("A sequence is a number.")
                return
            try:
                only = int(text) if text else None
                said.set_text("reading …")
                found = await site.reader.ask(
                    f"events {only} {stream}", lambda app: event_ways(app, accounts, only)
                )
            except Exception as error:
                said.set_text(printable(site.reason(error), 400))
                return
            which = f" of sequence {only}" if only is not None else ""
            said.set_text(f"{counted(len(found.ways), 'message')}{which} found.")
            with body:
                _show(found, strips)

        read.on_click(show)
        number.on("keydown.enter", show)


def _show(found: EventWays, strips: Strips) -> None:
    for each in reversed(found.ways):
        _way(each, strips)
    for unseen in found.unseen:
        ui.label(printable(unseen, 300))


def _way(way: EventWay, strips: Strips) -> None:
    kind = f", {printable(way.kind, 60)}" if way.kind else ""
    with card(f"Sequence {way.sequence}{kind}"):
        ui.label(f"from {way.topic}/{way.partition} offset {way.offset}, there {at(way.came)}")
        content = None if way.content is None else way.content.decode("utf-8", "backslashreplace")
        ui.label("no content" if content is None else printable(content, SHOWN)).classes(
            "mono isolated"
        )
        with ui.element("dl").classes("facts"):
            for end in way.ends:
                with ui.element("dt"):
                    ui.label(f"view {printable(end.view)}")
                with ui.element("dd"):
                    ui.label(state_of(strips.get(end.view, ()), way.sequence))
                    for trouble in end.troubles:
                        ui.label(printable(trouble, 600))
                    for row in end.rows:
                        ui.label(printable(row, SHOWN)).classes("mono isolated")


def state_of(strip: Sequence[Segment], sequence: int) -> str:
    """What a strip says of a sequence, the last that it is in."""
    states = [each.state for each in strip if each.first <= sequence <= each.last]
    return states[-1] if states else "here, and not handled yet"
