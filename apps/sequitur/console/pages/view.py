"""View: its places, whether it is halted and why; halt, and resume with a reason."""

from functools import partial

from nicegui import ui

from sequitur.console import operations
from sequitur.console.actions import button
from sequitur.console.charts import line_chart
from sequitur.console.pages.overview import state_of
from sequitur.console.samples import PLACES, Situation
from sequitur.console.site import Site, text_table
from topology.faust.inspection import commands
from topology.faust.inspection.command_log import Commands
from topology.model.printable import printable

_PLACES = {
    "processed": "handled, in order",
    "duplicate": "came before, and were discarded",
    "passed": "of a kind that the view does not handle",
    "waiting": "here, and wait for a predecessor",
    "redelivering": "come again from the redelivery topic",
    "late": "came after they had been given up",
    "failed": "passed over, as the handler failed",
    "parked": "set aside in order, until redriven or unparked",
    "dead": "in the dead topic",
}

_CHARTS = {"Processed events": PLACES[:1], "Events in other places": PLACES[1:]}


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/view")
    def view(name: str = "") -> None:
        shown = printable(name, 80)
        with site.page(f"View {shown}"):
            if name not in site.topology.views:
                ui.label("There is no such view.").props('role="alert"')
                return
            declared = next(each for each in site.topology.describe().views if each.name == name)
            ui.label(
                f"buffer {declared.buffer}, gap {declared.gap}, full {declared.full}, "
                f"late {declared.late}, error {declared.error}"
            ).classes("mono")
            with ui.element("section"):
                site.live("views", site.samples.look, lambda found, _: _places(name, found))
            with ui.element("section"):
                for title, places in _CHARTS.items():
                    line_chart(title, partial(site.samples.lines, name, *places))
            with ui.element("section"):
                button(site, operations.halt(name))
                button(site, operations.resume(name))
            with ui.element("section"):
                asked = partial(commands, view=name)
                site.live(f"commands of {name}", asked, lambda found, _: _told(name, found))


def _places(name: str, found: Situation) -> None:
    view = next(each for each in found.counts.views if each.view == name)
    good = view.adds_up and not view.troubles
    ui.label(printable(view.verdict, 600)).classes("good" if good else "bad").props('role="status"')
    ui.label(f"It {state_of(view)}." if not view.halted else "It is halted.")
    for number, reason in view.halted.items():
        ui.label(f"Halted in partition {number}: {printable(reason, 300)}").classes("bad")
    rows = [
        {"place": place, "events": f"{getattr(view.counts, place):,}", "means": means}
        for place, means in _PLACES.items()
    ]
    heads = {"place": "place", "events": "events", "means": "which are"}
    text_table("Places", heads, rows, numbers=("events",))
    ui.label(f"Offsets that are not read yet: {view.lag:,}")


def _told(name: str, found: Commands) -> None:
    halts = [c for c in found.found if c.view == name and c.name in ("halt", "resume")]
    for each in halts[-5:]:
        text = f"{each.name} by {each.who}, {each.state}; {each.why or 'no reason given'}"
        ui.label(printable(text, 400))
