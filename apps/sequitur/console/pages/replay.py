"""Replay: what was published, found by its metadata; a preview, and how far replays are."""

import asyncio
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from nicegui import ui

from sequitur.console.actions import Action, with_arguments
from sequitur.console.answers import show_answer
from sequitur.console.by_command import by_command, command_of
from sequitur.console.charts import bars
from sequitur.console.report import Given, card, form, inputs_of, report, values_of
from sequitur.console.site import Site, text_table
from sequitur.console.words import Words, short
from sequitur.replay.query_options import moment, query_options
from sequitur.replay.replay_file import read_replay_file
from stores.replay import CapturedMessage, Query
from topology.diagnostics.explain.remedies import quoted
from topology.model.counted import counted
from topology.model.printable import printable

SHOWN, BARS = 50, 24
"""Messages that are listed, and bars of a timeline."""
_QUERY = {
    "topic": "Topic", "stream": "Stream", "where": "Conditions: FIELD=VALUE …",
    "since": "Since, such as 2026-01-31T12:00", "until": "Until", "text": "The content has",
}  # fmt: skip
_HEADS = {"id": "id", "time": "time", "position": "position", "stream": "stream",
          "sequence": "sequence", "size": "bytes", "fields": "metadata"}  # fmt: skip
_NOT = "Nothing is published before it is started."


@dataclass(frozen=True, slots=True)
class Found:
    """What a query finds: how many, the first of them, what is gone, and (time, how many)."""

    count: int
    messages: list[CapturedMessage]
    gone: list[str]
    timeline: list[tuple[str, float]]


def query_words(given: Given) -> list[str]:
    """The options of a query, as the commands take them. Raises ValueError for open quotes."""
    conditions = [f"--where={each}" for each in shlex.split(given["where"])]
    rest = [f"--{name}={given[name]}" for name in _QUERY if name != "where" and given[name]]
    return [*rest, *conditions]


def found_by(file: str, words: Words, timeline: bool) -> Found:
    """Search the log, for no longer than its server may.

    Raises ClickException, ReplayError, DeclarationError, SQLAlchemyError.
    """
    reading = click.command()(query_options(_itself))
    query: Query = reading.main([*words], standalone_mode=False)()
    given = read_replay_file(Path(file))
    log, end = given.existing_log(), time.monotonic() + given.server.query_seconds

    def count(query: Query) -> int:
        return log.limited(max(0.1, end - time.monotonic())).count(query)

    messages = log.limited(given.server.query_seconds).page(query, SHOWN, content=False).messages
    found = Found(count(query), list(messages), [*map(str, log.holes(query))], [])
    if not timeline or not messages:
        return found
    newest = log.message(log.end())
    first = messages[0].time / 1000 if query.since is None else query.since
    last = first + 1 if newest is None else max(first + 1, newest.time / 1000 + 0.001)
    step = ((query.until or last) - first) / BARS
    for number in range(BARS):
        low = first + number * step
        part = replace(query, since=low, until=low + step)
        found.timeline.append((moment(round(low * 1000)), count(part)))
    return found


def _itself(query: Callable[[], Query]) -> Any:
    return query


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/replay")
    def page() -> None:
        with site.page("Replay"):
            for words in site.parts["replay"]:
                (file,) = words
                name = short(words)
                _search(site, file)
                form(
                    site, f"{name}: preview what is to be published again",
                    {**_QUERY, "to": "To: TARGET, or TOPIC=TARGET …", "rate": "Messages a second"},
                    {"Preview": partial(preview, file)}, optional=[*_QUERY, "rate"],
                )  # fmt: skip
                report(site, f"{name}: replays", "replay", ["status", file])
                acts = {f"{each.capitalize()} replay": partial(act, file, each) for each in ACTS}
                form(site, f"{name}: a replay", {"id": "Id"}, acts)


def _search(site: Site, file: str) -> None:
    with card(f"{short([file])}: search"):
        inputs = inputs_of(_QUERY)
        with ui.row():
            buttons = {
                each: ui.button(each).props("outline no-caps dense")
                for each in ("Search", "Timeline")
            }
        said = ui.label().classes("mono isolated")
        body = ui.element("div").classes("full-width")

        async def search(timeline: bool) -> None:
            body.clear()
            try:
                words = query_words(values_of(inputs))
                said.set_text(quoted([*command_of("replay", ["list", file]), *words]))
                found = await asyncio.to_thread(found_by, file, words, timeline)
            except Exception as error:
                reason = getattr(error, "format_message", error.__str__)()
                said.set_text(printable(reason, 400))
                return
            with body:
                _show(found)

        for name, button in buttons.items():
            button.on_click(partial(search, name == "Timeline"))
    with card(f"{short([file])}: a message"):
        number = inputs_of({"id": "Its id"})
        shown = ui.element("div").classes("full-width")

        async def show() -> None:
            words = command_of("replay", with_arguments("show", file, values_of(number)["id"]))
            found = await site.command(words)
            shown.clear()
            with shown:
                ui.label(quoted(words)).classes("mono isolated")
                show_answer(found, judges=False)

        ui.button("Show", on_click=show).props("outline no-caps dense")


def _show(found: Found) -> None:
    ui.label(f"{counted(found.count, 'message')} found.").props('role="status"')
    for each in found.gone:
        ui.label(f"Gone: {printable(each, 200)}").classes("bad")
    if found.timeline:
        bars("Timeline", found.timeline, head="from")
    text_table("Messages", _HEADS, [_row(each) for each in found.messages], numbers=("size",))


def _row(message: CapturedMessage) -> dict[str, Any]:
    fields = (f"{name}={printable(each, 60)}" for name, each in message.metadata.items())
    return {
        "id": str(message.id), "time": moment(message.time),
        "position": printable(message.position, 200),
        "stream": "" if message.stream is None else printable(message.stream, 60),
        "sequence": "" if message.sequence is None else str(message.sequence),
        "size": f"{message.size:,}", "fields": " ".join(fields),
    }  # fmt: skip


def preview(file: str, given: Given) -> Action:
    """Freeze what a query finds."""
    to = [f"--to={each}" for each in given["to"].split()]
    rate = [f"--rate={given['rate']}"] if given["rate"] else []
    return by_command(
        "replay", ["preview", file, *query_words(given), *to, *rate], "Preview",
        "Freeze and count what the query finds now, to publish it again", _NOT,
    )  # fmt: skip


ACTS = {
    "start": ("Publish the set again", "What reads the target gets all of it, once more."),
    "pause": ("Pause the replay, within a page of messages", "Nothing is lost."),
    "resume": ("Go on with the replay where it was paused", "Nothing is lost."),
    "cancel": ("End the replay for good", "What is published stays; the rest is not published."),
}


def act(file: str, name: str, given: Given) -> Action:
    """Start, pause, resume or cancel a replay."""
    title, cost = ACTS[name]
    words = with_arguments(name, given["id"], options=[file])
    return by_command("replay", words, f"{name.capitalize()} replay", title, cost)
