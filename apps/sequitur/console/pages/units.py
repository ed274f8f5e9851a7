"""Units: who holds which, what waits, and what helps."""

from functools import partial

from nicegui import ui

from sequitur.console.actions import Action
from sequitur.console.by_command import by_command
from sequitur.console.report import Given, form, report
from sequitur.console.site import Site
from sequitur.console.words import Words
from topology.diagnostics.explain.remedies import quoted

_NOTHING = "Nothing is lost."
ACTIONS = {
    "park": ("Set the unit aside with all that follows into it", _NOTHING),
    "redrive": ("Deliver the parked unit again, in order", _NOTHING),
    "pause": ("Deliver nothing new of the unit", f"{_NOTHING} What comes waits."),
    "resume": ("End the pause of the unit", _NOTHING),
    "move": (
        "Send the unit's messages to another topic",
        "This destination's consumers do not get them. It may break the unit's order.",
    ),
    "delete": (
        "Delete the unit's messages", "They are lost. It may break the unit's order.",
    ),
}  # fmt: skip
_FIELDS = {
    "unit": "Unit", "member": "Member, if not the unit's", "offset": "Offset; else all",
    "to": "Topic to move to",
}  # fmt: skip


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/units")
    def page() -> None:
        with site.page("Units"):
            for words in site.parts["units"]:
                name = quoted(words)
                report(site, f"Units of {name}", "units", ["status", *words])
                buttons = {each.capitalize(): partial(action, words, each) for each in ACTIONS}
                form(site, f"A unit of {name}", _FIELDS, buttons, ["member", "offset", "to"])


def action(words: Words, name: str, given: Given) -> Action:
    """What a command of `sequitur units` does to a unit."""
    title, cost = ACTIONS[name]
    takes = ["unit", "member", *(["offset", "to"] if name == "move" else [])]
    takes += ["offset"] if name == "delete" else []
    options = [f"--{each}={given[each]}" for each in takes if given.get(each)]
    return by_command("units", [name, *words, *options], name.capitalize(), title, cost)
