"""Failures: parked, dead, late, malformed, unknown, errors: by reason, with samples, and back."""

import re
from collections.abc import Collection
from functools import partial
from heapq import nsmallest
from typing import Any

from nicegui import ui

from sequitur.console import operations
from sequitur.console.actions import Action, button
from sequitur.console.site import Site, stream_link
from topology.diagnostics.explain.parked_streams import ParkedStreams
from topology.diagnostics.explain.times import at
from topology.diagnostics.parked_groups import by_reason
from topology.diagnostics.side_topics import SIDES, SideGroup, full_text
from topology.faust.inspection import parked
from topology.faust.inspection.side_topics import SideTopic, side_topic
from topology.model.counted import counted
from topology.model.printable import printable

EVERY = 15.0
"""Seconds from one look to the next: a side topic is read from its end each time."""
GROUPS = 50
_ABOUT = {
    "dead": "Events that a view gave up.",
    "late": "Events whose sequence was passed.",
    "malformed": "Messages that no inspector could read.",
    "unknown": "Messages that no inspector knows.",
    "errors": "Failures of handlers.",
}


def literal(reason: str) -> str:
    """The longest part of a group's reason that all its records have, to choose them by."""
    return max(re.split("…", reason), key=len).strip() if reason != "no reason" else ""


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/failures")
    def page() -> None:
        with site.page("Failures"):
            _head("Parked", "Streams that are set aside in order, until somebody decides.")
            site.live("parked", parked, lambda found, _: _parked(site, found), every=EVERY)
            for side in SIDES:
                _head(side.capitalize(), _ABOUT[side])
                ask = partial(side_topic, side=side, limit=1)
                site.live(side, ask, lambda found, _: _side(site, found), every=EVERY)


def _head(title: str, about: str) -> None:
    with ui.element("h2"):
        ui.label(title)
    ui.label(about)


def _parked(site: Site, found: ParkedStreams) -> None:
    waiting = sum(each.waiting for each in found.streams)
    ui.label(
        f"{counted(len(found.streams), 'stream')}, {counted(waiting, 'event')}"
        if found.streams
        else "None."
    )
    for (view, reason), streams in list(by_reason(found).items())[:GROUPS]:
        with _group(f"Parked in {view}: {reason}"):
            many = counted(len(streams), "stream")
            ui.label(f"{many} of view {printable(view)}: {printable(reason, 300)}")
            _links([each.stream for each in streams])
            # Without a text to choose them by, it would be all of the view's streams.
            if view in site.topology.views and (part := literal(reason)):
                with ui.row():
                    button(site, operations.parked_many("redrive", view, part))
                    button(site, operations.parked_many("unpark", view, part))
    _unseen(found.unseen)


def _side(site: Site, found: SideTopic) -> None:
    groups = counted(len(found.groups), "group")
    ui.label(f"{counted(found.count, 'record')} in {groups}" if found.count else "None.")
    for group in found.groups[:GROUPS]:
        with _group(f"{found.side} {group.reason}"):
            where = f" of view {printable(group.view)}" if group.view else ""
            ui.label(f"{group.count:,}{where}: {printable(group.reason, 300)}")
            ui.label(f"from {at(group.first)} to {at(group.sample.when)}")
            shown = group.streams if found.side not in ("malformed", "unknown") else ()
            _links(shown, more=group.more)
            with ui.expansion(f"The last one, at offset {group.sample.offset}"):
                lines = [printable(each, 4000) for each in full_text(group.sample, found.now)]
                ui.label("\n".join(lines)).classes("mono isolated")
            if (action := _action(site, found.side, group)) is not None:
                button(site, action)
    _unseen(found.unseen)


def _action(site: Site, side: str, group: SideGroup) -> Action | None:
    part = literal(group.reason)
    if side == "unknown":
        return operations.replay(side)
    if side == "malformed" and part:
        return operations.replay(side, part)
    if side == "dead" and part and group.view in site.topology.views:
        return operations.redrive_the_dead(group.view, reason=part)
    return None


def _group(title: str) -> Any:
    card = ui.card().classes("full-width q-my-sm")
    card.props["role"], card.props["aria-label"] = "region", printable(title, 120)
    return card


def _links(streams: Collection[str], *, more: bool = False) -> None:
    with ui.row():
        for each in nsmallest(10, streams):  # of all that are dead, say
            ui.link(printable(each, 60), stream_link(each)).classes("isolated")
        if len(streams) > 10:
            ui.label(f"and {len(streams) - 10:,} more streams{', at least' * more}")


def _unseen(unseen: list[str]) -> None:
    for each in unseen:
        ui.label(printable(each, 300))
