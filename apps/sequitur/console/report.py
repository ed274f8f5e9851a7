"""What pages about the parts beside a topology are made of: a command's answer, and forms."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from nicegui import ui

from sequitur.console.actions import Action, open_dialog
from sequitur.console.answers import show_answer
from sequitur.console.by_command import command_of
from sequitur.console.look_command import look_command
from sequitur.console.run_command import Answer, run_command
from sequitur.console.site import Site
from topology.diagnostics.explain.remedies import quoted

EVERY, APART = 5.0, 60.0
"""Seconds from one look to the next, in this process and in one of its own."""
Given = Mapping[str, str]
"""Field → what somebody wrote there."""


@contextmanager
def card(title: str) -> Iterator[None]:
    """A part of a page that has a name."""
    with ui.card().classes("full-width q-my-sm") as made:
        made.props["role"], made.props["aria-label"] = "region", title
        with ui.element("h2"):
            ui.label(title)
        yield


def report(
    site: Site, title: str, group: str, words: Sequence[str], *,
    apart: bool = False, judges: bool = True,
) -> None:  # fmt: skip
    """What a command says, anew every few seconds while a browser looks.

    apart: it makes an app of its own, and so runs in a process of its own, and more rarely.
    judges: see `show_answer`.
    """
    command = command_of(group, words)

    def ask(_: object) -> Awaitable[Answer]:
        return run_command(command) if apart else look_command(command[1:])

    with card(title):
        ui.label(quoted(command)).classes("mono isolated")
        site.live(
            quoted(command), ask, lambda found, _: show_answer(found, judges=judges),
            every=APART if apart else EVERY,
        )  # fmt: skip


def form(
    site: Site, title: str, fields: Given, buttons: Mapping[str, Callable[[Given], Action]],
    optional: Sequence[str] = (),
) -> None:  # fmt: skip
    """Fields, and a button for each action that is made of them.

    Args:
        site: the console.
        title: of the form.
        fields: name → label.
        buttons: name → makes the action of what the fields have.
        optional: fields that may be empty.
    """
    with card(title):
        inputs = inputs_of(fields)

        async def asked(make: Callable[[Given], Action]) -> None:
            given = values_of(inputs)
            if lacks := [
                fields[name] for name in fields if not given[name] and name not in optional
            ]:
                ui.notify(f"Fill in: {', '.join(lacks)}")
            else:
                await open_dialog(site, make(given))

        with ui.row():
            for name, make in buttons.items():
                ui.button(name, on_click=partial(asked, make)).props("outline no-caps dense")


def inputs_of(fields: Given) -> dict[str, Any]:
    """An input for each field."""
    with ui.row().classes("items-end"):
        inputs = {name: ui.input(label).props("dense") for name, label in fields.items()}
    for name, label in fields.items():
        inputs[name].style(f"min-width: {max(10, len(label) * 0.6):.0f}rem")
    return inputs


def values_of(inputs: Mapping[str, Any]) -> dict[str, str]:
    """What somebody wrote there."""
    return {name: (each.value or "").strip() for name, each in inputs.items()}
