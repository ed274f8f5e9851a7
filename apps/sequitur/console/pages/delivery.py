"""Delivery: what waits in an outbox, who relays it, and what an inbox has, misses and set aside."""

from functools import partial

from nicegui import ui

from sequitur.console.actions import Action
from sequitur.console.by_command import by_command
from sequitur.console.report import Given, form, report
from sequitur.console.site import Site
from sequitur.console.words import Words
from topology.diagnostics.explain.remedies import quoted

_FIELDS = {"topic": "Topic", "stream": "Stream"}


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/delivery")
    def page() -> None:
        with site.page("Delivery"):
            for words in site.parts.get("relay", ()):
                report(site, f"Outbox and relay {quoted(words)}", "relay", ["status", *words])
            for words in site.parts.get("inbox", ()):
                name = quoted(words)
                for what in ("counts", "gaps", "parked", "commands"):
                    judges = what != "commands"
                    report(site, f"Inbox {name}: {what}", "inbox", [what, *words], judges=judges)
                buttons = {"Redrive": partial(redrive, words), "Unpark": partial(unpark, words)}
                form(site, f"A parked stream of inbox {name}", _FIELDS, buttons)


def redrive(words: Words, given: Given) -> Action:
    """Deliver a parked stream of an inbox again."""
    return by_command(
        "inbox", ["redrive", *words, *_stream(given)], "Redrive",
        "Deliver the parked stream again, from the failed message on",
        "Nothing is lost. What fails again is parked again.",
    )  # fmt: skip


def unpark(words: Words, given: Given) -> Action:
    """Go on without the failed message."""
    return by_command(
        "inbox", ["unpark", *words, *_stream(given)], "Unpark",
        "Let the parked stream go on without the failed message",
        "The consumer does without the failed message, which is dead.",
    )  # fmt: skip


def _stream(given: Given) -> list[str]:
    return [f"--topic={given['topic']}", f"--stream={given['stream']}"]
