"""Stream: search; in each view its sequences as a strip, why it is where it is, and what helps."""

from collections.abc import Iterator

from nicegui import ui

from sequitur.console import operations
from sequitur.console.actions import Action, button
from sequitur.console.events import show_events
from sequitur.console.site import Site, stream_link, view_link
from sequitur.console.strip import Segment, strip
from topology.diagnostics.explain import Account, account_facts, account_line
from topology.diagnostics.explain.times import at
from topology.diagnostics.explain.went_on_without import can_be_put_back
from topology.faust.inspection import explain
from topology.model.printable import printable

_LINE = 600


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/stream")
    def page(id: str = "") -> None:
        with site.page("Stream"):
            search = ui.input("Stream id").props('type="search"').classes("full-width")
            search.on("keydown.enter", lambda: ui.navigate.to(stream_link(search.value or "")))
            if not id:
                ui.label("Give the id of a stream as its source writes it, and press Enter.")
                return
            with ui.element("h2"):
                ui.label(printable(id, 600)).classes("isolated mono")
            accounts, strips = list[Account](), dict[str, list[Segment]]()

            def show(found: list[Account], _: object) -> None:
                accounts[:] = found
                strips.clear()
                for each in found:
                    ordering = site.topology.views[each.view].ordering
                    strips.setdefault(each.view, []).extend(
                        strip(each, ordering.start, ordering.step)
                    )
                _show(site, found)

            site.live(f"stream {id}", lambda app: explain(app, id, command=site.start), show)
            show_events(site, id, accounts, strips)


def _show(site: Site, accounts: list[Account]) -> None:
    similar = {each for account in accounts for each in account.context.similar}
    if similar:
        ui.label("No view knows it. Ids that come close:")
        for each in sorted(similar):
            ui.link(printable(each, 80), stream_link(each)).classes("isolated")
    with ui.row().classes("full-width items-stretch"):
        for account in accounts:
            with ui.card().classes("col").style("min-width: 22rem") as card:
                card.props["role"], card.props["aria-label"] = "region", f"View {account.view}"
                _card(site, account)


def _card(site: Site, account: Account) -> None:
    view = site.topology.views[account.view]
    with ui.element("h2"):
        ui.link(f"View {printable(account.view)}", view_link(account.view))
    ui.label(account.situation).classes("good" if account.well else "bad")
    with ui.element("ul").classes("strip").props('aria-label="Sequences"'):
        for segment in strip(account, view.ordering.start, view.ordering.step):
            with ui.element("li").classes(segment.state.replace(" ", "-")):
                ui.label(str(segment))
    ui.label(printable(account_line(account), _LINE)).classes("isolated")
    with ui.element("dl").classes("facts isolated"):
        for name, lines in account_facts(account):
            if lines:
                with ui.element("dt"):
                    ui.label(name)
                with ui.element("dd"):
                    ui.label("\n".join(_line(each) for each in lines)).classes("mono")
    with ui.row():
        for action in actions(account):
            button(site, action)
    ui.label(f"as of {at(account.context.now)}")


def _line(text: str) -> str:
    """A line as text: what would help has two, the second moved in."""
    lines = (printable(each.strip(), _LINE) for each in text.split("\n"))
    return "\n  ".join(lines)


def actions(account: Account) -> Iterator[Action]:
    """What may help the stream; nothing is given up that is there, or that may still come."""
    view, stream, place = account.view, account.stream, account.place
    if account.situation in ("parked", "retrying"):
        yield operations.redrive(view, stream)
        yield operations.unpark(view, stream)
    elif account.helps("skip"):
        gap = place.missing[0]
        yield operations.skip(view, stream, gap.last, force=gap.count != 1)
    if any(map(can_be_put_back, (*account.passed.ahead, *account.passed.lost))):
        yield operations.redrive_the_dead(view, stream=stream)
    if place.last is not None or place.waits:
        yield operations.drop(view, stream)
