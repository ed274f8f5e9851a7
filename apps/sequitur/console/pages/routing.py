"""Routing: rules and processes, segments, what is parked, endpoints, and a pasted message's way."""

from functools import partial
from pathlib import Path

from nicegui import ui

from sequitur.console.actions import Action, with_arguments
from sequitur.console.alerts import show_alerts
from sequitur.console.answers import show_answer
from sequitur.console.by_command import by_command, command_of
from sequitur.console.report import Given, card, form, inputs_of, report, values_of
from sequitur.console.site import Site
from sequitur.console.words import Words, short
from sequitur.route.router_file import units_control
from topology.diagnostics.explain.remedies import quoted

_NOTHING = "Nothing is lost."
_REPORTS = {
    "status": "rules, processes, counts, trails, endpoints and broadcasts",
    "formats": "who reads which format",
    "parked": "parked streams",
    "segments": "segments of units of work",
}


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/routing")
    def page() -> None:
        with site.page("Routing"):
            for words in site.parts.get("router", ()):
                _router(site, words, short(words))
            for words in site.parts.get("alerts", ()):
                show_alerts(site, words[0])


def _router(site: Site, words: Words, name: str) -> None:
    file = words[0].endswith(".toml")
    if file:
        # Segments are of units of work, and have no login to Kafka.
        segments = units_control(Path(words[0])) is not None
    for command, what in _REPORTS.items():
        if command == "segments" and file and segments:
            report(site, f"{name}: {what}", "route", [command, words[0]])
        elif command == "status" or (file and command != "segments"):
            report(
                site, f"{name}: {what}", "route", [command, *words],
                apart=command == "parked", judges=command != "formats",
            )  # fmt: skip
    if file:
        with card(f"{name}: the way of a message"):
            _way(site, words[0])
    form(site, f"{name}: rules", {"keymaps": "Keymaps; else all of the file"},
         {"Reload": partial(reload, words)}, optional=["keymaps"])  # fmt: skip
    form(site, f"{name}: trails", {"detail": "none, fired or all", "every": "Of so many one"},
         {"Write trails": partial(trails, words)}, optional=["every"])  # fmt: skip
    form(site, f"{name}: a parked stream", {"stream": "Stream, as it is listed"},
         {"Redrive": partial(redrive, words), "Unpark": partial(unpark, words)})  # fmt: skip
    form(site, f"{name}: a damaged segment", {"topic": "Its topic", "transport": "Its transport"},
         {"Skip": partial(skip, words)})  # fmt: skip
    fields = {"endpoint": "Endpoint", "destination": "Destination", "format": "Format it reads"}
    form(site, f"{name}: an endpoint", fields,
         {"Register": partial(enrol, words), "Unregister": partial(unregister, words)},
         optional=["destination", "format"])  # fmt: skip


def _way(site: Site, file: str) -> None:
    """Where a pasted message goes, and why: nothing is published."""
    inputs = inputs_of({"source": "Topic that it comes from"})
    message = ui.textarea("Message").classes("full-width").props("dense")
    body = ui.element("div")

    async def explain() -> None:
        source = values_of(inputs)["source"]
        named = [f"--source={source}"] if source else []
        words = command_of("route", ["explain", *named, file, "-"])
        found = await site.command(words, (message.value or "").encode("utf-8", "replace"))
        body.clear()
        with body:
            ui.label(f"{quoted(words)} < MESSAGE").classes("mono isolated")
            show_answer(found, judges=False)

    ui.button("Explain", on_click=explain).props("outline no-caps dense")


def reload(words: Words, given: Given) -> Action:
    """Load rules again."""
    return by_command(
        "route", with_arguments("reload", *given["keymaps"].split(), options=words), "Reload",
        "Load the rules again; all processes switch to them together",
        f"{_NOTHING} What uses a keymap pauses while it is loaded. A refused file changes nothing.",
    )  # fmt: skip


def trails(words: Words, given: Given) -> Action:
    """Write more or fewer trails."""
    every = [f"--every={given['every']}"] if given["every"] else []
    return by_command(
        "route", with_arguments("trails", given["detail"], options=[*every, *words]),
        "Write trails", "Write trails of messages from now on, in all processes",
        f"{_NOTHING} Trails cost time and room.",
    )  # fmt: skip


def redrive(words: Words, given: Given) -> Action:
    """Route a parked stream again."""
    return by_command(
        "route", with_arguments("redrive", given["stream"], options=words), "Redrive",
        "Route the parked stream again, in order, from what failed on",
        f"{_NOTHING} What fails again is parked again.",
    )  # fmt: skip


def unpark(words: Words, given: Given) -> Action:
    """Let a parked stream go on without what failed."""
    return by_command(
        "route", with_arguments("unpark", given["stream"], options=words), "Unpark",
        "Let the parked stream go on without what failed",
        "No destination gets what failed, which goes to the malformed topic, or to errors.",
    )  # fmt: skip


def skip(words: Words, given: Given) -> Action:
    """Go on behind the damage of a segment."""
    return by_command(
        "route",
        ["segments", f"--skip={given['topic']}", f"--transport={given['transport']}", words[0]],
        "Skip",
        "Go on behind the damage of the topic's segment",
        "What the damage holds is lost.", dry_run=True,
    )  # fmt: skip


def enrol(words: Words, given: Given) -> Action:
    """Register an endpoint."""
    form = [f"--format={given['format']}"] if given["format"] else []
    names = [given["endpoint"], given["destination"]]
    return by_command(
        "route", with_arguments("register", *names, options=[*form, *words]), "Register",
        "Register the endpoint: it gets what goes to the destination", _NOTHING,
    )  # fmt: skip


def unregister(words: Words, given: Given) -> Action:
    """Let an endpoint read nothing any more."""
    return by_command(
        "route", with_arguments("unregister", given["endpoint"], options=words), "Unregister",
        "Let the endpoint read nothing any more",
        "What comes from now on does not reach it.",
    )  # fmt: skip
