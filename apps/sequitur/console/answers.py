"""Shows what a command said."""

from nicegui import ui

from sequitur.console.run_command import Answer
from topology.model.printable import printable

LINES, LINE = 300, 600
_VERDICTS = {0: "In order.", 1: "Not in order."}


def show_answer(found: Answer, *, judges: bool = True) -> None:
    """Show what a command said. judges: whether its status 0 says that all is well."""
    if found.status or judges:
        verdict = ui.label(_VERDICTS.get(found.status, "It could not be asked."))
        verdict.classes("bad" if found.status else "good")
    _plain(found.text)


def _plain(text: str) -> None:
    """Show lines of text as they are."""
    lines = text.split("\n")
    more = [f"… and {len(lines) - LINES:,} more lines"] if len(lines) > LINES else []
    shown = [*(printable(each.expandtabs(4), LINE) for each in lines[:LINES]), *more]
    ui.label("\n".join(shown)).classes("mono isolated")
