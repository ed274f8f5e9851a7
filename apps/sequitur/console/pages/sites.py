"""Sites: links, lag, copies, and what to do when one is lost."""

from functools import partial

from nicegui import ui

from sequitur.console.actions import Action, with_arguments
from sequitur.console.by_command import by_command
from sequitur.console.report import Given, form, report
from sequitur.console.site import Site
from sequitur.console.words import Words, short

_REPORTS = {
    "status": "who answers, and what was decided",
    "lag": "what is lost if this site is lost now",
    "gaps": "what a site lacks of another one",
}
_FIELDS = {
    "site": "Site", "epoch": "Epoch: one above the last decision's",
    "without": "Sites out of reach too",
}  # fmt: skip


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/sites")
    def page() -> None:
        with site.page("Sites"):
            for words in site.parts["sites"]:
                name = short(words)
                for command, what in _REPORTS.items():
                    report(site, f"{name}: {what}", "sites", [command, *words])
                buttons = {
                    "Take over": partial(decide, words, "takeover"),
                    "Return": partial(decide, words, "return"),
                }
                form(site, f"{name}: decide", _FIELDS, buttons, optional=["without"])
                form(site, f"{name}: what was deleted before it was copied",
                     {"peer": "Site that lacks it", "topic": "Topic"},
                     {"Accept loss": partial(accept_loss, words)})  # fmt: skip


_DECISIONS = {
    "takeover": (
        "Take over", "Take over the lost site: the others are made equal",
        "What only the lost site has is lost to the others, until it is returned. It forwards "
        "nothing more.",
    ),
    "return": (
        "Return", "Let a site that was taken over forward again",
        "Nothing is lost. What it has and others lack is merged behind what they have.",
    ),
}  # fmt: skip


def decide(words: Words, command: str, given: Given) -> Action:
    """Take a site over, or let it return."""
    name, title, cost = _DECISIONS[command]
    options = [*words, f"--epoch={given['epoch']}"]
    options += [f"--without={each}" for each in given["without"].split()]
    told = with_arguments(command, given["site"], options=options)
    return by_command("sites", told, name, title, cost, dry_run=True)


def accept_loss(words: Words, given: Given) -> Action:
    """Give up what retention deleted before it was copied."""
    options = [f"--peer={given['peer']}", f"--topic={given['topic']}"]
    return by_command(
        "sites", ["accept-loss", *words, *options], "Accept loss",
        "Give up what retention deleted here before it was copied",
        "The other site never gets it; the rest goes on.", dry_run=True,
    )  # fmt: skip
