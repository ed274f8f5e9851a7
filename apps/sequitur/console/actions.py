"""What an operator does: said beforehand, tried, asked for, recorded, and as a command line."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import ui

from sequitur.console.site import Site
from topology.diagnostics.explain.remedies import quoted
from topology.model.printable import printable

Done = tuple[bool, str]
"""(whether it was done, what came of it or would come of it)."""
_LINES = 40
logger = logging.getLogger("console")


@dataclass(frozen=True, slots=True)
class Action:
    """Something to do.

    Attributes:
        name: on its button.
        title: what it does, in a sentence.
        words: of the command that does the same, without the app.
        run: of the app and a reason, does it.
        dry_run: says what it would do; None where nothing can be lost.
        cost: what is lost, or not lost, in words; what the dry run says comes besides.
        start: what its command begins with; the app's unless given.
        reason: the command's option for the reason.
    """

    name: str
    title: str
    words: Sequence[str]
    run: Callable[[Any, str], Awaitable[Done]]
    dry_run: Callable[[Any], Awaitable[Done]] | None
    cost: str
    start: str = ""
    reason: str = "--why"

    def line(self, start: str, why: str = "") -> str:
        """The command that does the same, as a shell takes it. start: of the app's commands."""
        return f"{self.start or start} {quoted(told(self.words, self.reason, why))}"


def told(words: Sequence[str], reason: str, why: str) -> list[str]:
    """A command's words with the reason, where there is one."""
    return [*words[:1], reason, why, *words[1:]] if why else [*words]


def with_arguments(name: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """A command's words; an argument that looks like an option follows a dash of its own."""
    if any(each.startswith("-") for each in arguments):
        return [name, *options, "--", *arguments]
    return [name, *options, *arguments]


def button(site: Site, action: Action) -> None:
    """A button that opens the dialog of an action."""

    async def opened() -> None:
        await open_dialog(site, action)

    ui.button(action.name, on_click=opened).props("outline no-caps dense").classes("q-mr-sm")


async def open_dialog(site: Site, action: Action) -> None:
    """Ask whether an action is meant, and what for. What is around its button may be made anew."""
    with ui.context.client.content:
        await Dialog(site, action).open()


class Dialog:
    """Asks whether an action is meant, and what for."""

    def __init__(self, site: Site, action: Action) -> None:
        self._site, self._action = site, action

    async def open(self) -> None:
        """Show it, and what the action would do."""
        action, session = self._action, self._site.session()
        with ui.dialog(value=True) as self._dialog, ui.card().classes("full-width"):
            self._dialog.props('aria-labelledby="what"').on("hide", self._dialog.delete)
            with ui.element("h2").props('id="what"'):
                ui.label(action.title)
            ui.label(action.cost)
            if session is not None and action.dry_run is not None:
                self.said = ui.label("asking what would be done …")
            else:
                self.said = ui.label("")
            self.said.classes("mono isolated").props('role="status"')
            self.why = ui.input("Why, for the record", on_change=self._tell)
            self.why.classes("full-width").props('autofocus maxlength="300"')
            ui.label("The same as a command:")
            self._line = ui.label().classes("mono isolated")
            self._tell()
            with ui.row():
                self.do = ui.button(action.name, on_click=self.run).props("no-caps")
                self.do.disable()
                ui.button("Cancel", on_click=self._dialog.close).props("flat no-caps")
                if session is None:
                    ui.link("Read only: sign in to act", "/login")
        if session is None:
            return
        if action.dry_run is not None and not await self._told(session.who, action.dry_run):
            return  # it would be refused
        self.do.enable()

    def _tell(self) -> None:
        why = printable(self.why.value or "", 300)
        self._line.set_text(self._action.line(self._site.start, why))

    async def run(self) -> None:
        """Carry it out, if there is a session and a reason."""
        why, session = (self.why.value or "").strip(), self._site.session()
        if session is None:
            self.said.set_text("Your session has ended: sign in again.")
        elif not why:
            self.said.set_text("Say why, for the record.")
            self.why.run_method("focus")
        else:
            self.do.disable()
            self.said.set_text("asking …")
            why = printable(why, 300)
            line = self._action.line(self._site.start, why)
            logger.info("%s acts, for %s: %s", session.who, why, line)
            await self._told(session.who, lambda app: self._action.run(app, why))

    async def _told(self, who: str, work: Callable[[Any], Awaitable[Done]]) -> bool:
        try:
            done, text = await self._site.reader.act(who, work)
        except Exception as error:
            done, text = False, self._site.reason(error)
        lines = text.split("\n")
        more = [f"… and {len(lines) - _LINES} more lines"] if len(lines) > _LINES else []
        self.said.set_text("\n".join([*(printable(each, 400) for each in lines[:_LINES]), *more]))
        return done
