"""Every action of the console: its command, and that nobody without a session carries it out."""

import asyncio
import os
import shlex
import subprocess
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import click
import pytest

from sequitur.cli.main import sequitur
from sequitur.console import operations
from sequitur.console.actions import Action, Dialog, told
from sequitur.console.pages import delivery, failures, read_store, replay, routing, sites, units
from sequitur.console.words import words_of

EVIL = "-<script>window.evil=1</script>'\"$(touch evil);`x`\n\u202e{{ 7*7 }}"
ODD = "-<b>'$(touch evil)"
GIVEN = {
    "topic": "moves", "stream": EVIL, "unit": ODD, "member": "0", "offset": "7", "to": "again",
    "transport": "files",
    "keymaps": "makers seats", "detail": "fired", "every": "10", "endpoint": EVIL,
    "destination": "out", "format": "csv", "site": "kennedy", "epoch": "2", "without": "madrid",
    "peer": "kennedy", "id": "0123456789ab", "older": "30d", "where": "tail=N1 'gate=A 1'",
    "since": "2026-01-31", "until": "", "text": EVIL, "rate": "5",
}  # fmt: skip
UNITS = ["--destination", "orders", "--group", "billing"]
INBOX = ["--database", "sqlite:///w.sqlite", "--name", "warehouse"]
ACTIONS = [
    operations.halt("board"),
    operations.resume("board"),
    operations.skip("board", EVIL, 3, force=True),
    operations.redrive("board", EVIL),
    operations.unpark("board", EVIL),
    operations.drop("board", EVIL),
    operations.skip_many("board", 10),
    operations.parked_many("redrive", "board", EVIL),
    operations.parked_many("unpark", "board", EVIL),
    operations.redrive_the_dead("board", stream=EVIL, reason=EVIL),
    operations.replay("malformed", EVIL),
    read_store.remove(["sqlite:///s.sqlite"], GIVEN),
    delivery.redrive(INBOX, GIVEN),
    delivery.unpark(INBOX, GIVEN),
    *(units.action(UNITS, name, GIVEN) for name in units.ACTIONS),
    *(
        make(["router.toml"], GIVEN)
        for make in (
            routing.reload, routing.trails, routing.redrive, routing.unpark, routing.skip,
            routing.enrol, routing.unregister,
        )
    ),
    sites.decide(["s.toml"], "takeover", GIVEN),
    sites.decide(["s.toml"], "return", GIVEN),
    sites.accept_loss(["s.toml"], GIVEN),
    replay.preview("r.toml", GIVEN),
    *(replay.act("r.toml", name, GIVEN) for name in replay.ACTS),
]  # fmt: skip
NAMES = [f"{each.start or 'faust'} {each.words[0]}" for each in ACTIONS]
every_action = pytest.mark.parametrize("action", ACTIONS, ids=NAMES)


@every_action
def test_a_command_that_is_shown_does_the_same_in_a_shell(action: Action) -> None:
    line = action.line("faust -A app", EVIL)
    assert line.isprintable()
    said = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, check=True,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    start = shlex.split(action.start or "faust -A app")
    expected = [*start, *told(action.words, action.reason, EVIL)]
    assert said.stdout.decode().split("\0")[:-1] == expected


@pytest.mark.parametrize("action", [each for each in ACTIONS if each.start])
def test_commands_take_what_actions_give_them(action: Action) -> None:
    words = told(action.words, action.reason, "why")
    if action.dry_run is not None:
        words = [words[0], "--dry-run", *words[1:]]
    command: click.Command = sequitur
    with click.Context(command) as context:
        for name in [*action.start.split()[1:], words[0]]:
            assert isinstance(command, click.Group)
            found = command.get_command(context, name)
            assert found is not None
            command = found
        made = command.make_context(words[0], list(words[1:]))
    given = [*made.params.values()]
    for odd in (EVIL, ODD):
        if any(odd in (word, word.partition("=")[2]) for word in action.words):
            assert odd in given or (odd,) in given


def test_damage_of_a_segment_is_skipped_for_the_transport_that_is_named() -> None:
    assert "--transport=files" in routing.skip(["router.toml"], GIVEN).words


@pytest.mark.parametrize("side", ["dead", "malformed"])
@pytest.mark.parametrize(("reason", "acts"), [("no row … of", True), ("no reason", False),
                                              ("… …", False)])  # fmt: skip
def test_a_group_that_no_text_tells_from_others_has_no_action(
    side: str, reason: str, acts: bool
) -> None:
    # Without a text the action would be about all that is dead in the view.
    site: Any = SimpleNamespace(topology=SimpleNamespace(views={"board": None}))
    group: Any = SimpleNamespace(view="board", reason=reason)
    assert (failures._action(site, side, group) is not None) == acts


class _Label:
    def __init__(self) -> None:
        self.text = ""

    def set_text(self, text: str) -> None:
        self.text = text


@every_action
def test_nobody_acts_whose_session_has_ended_or_who_says_no_reason(action: Action) -> None:
    ran = list[str]()

    async def run(_: Any, why: str) -> tuple[bool, str]:
        ran.append(why)
        return True, "done"

    async def act(_: str, work: Any) -> Any:
        return await work(None)

    session: Any = None
    reader = SimpleNamespace(act=act)
    site: Any = SimpleNamespace(session=lambda: session, reader=reader, start="faust -A app")
    dialog = Dialog(site, replace(action, run=run))
    dialog.said, dialog.do = said, _ = _Label(), SimpleNamespace(disable=lambda: None)  # type: ignore[assignment]
    dialog.why = SimpleNamespace(value="because", run_method=lambda name: None)  # type: ignore[assignment]
    asyncio.run(dialog.run())
    assert said.text == "Your session has ended: sign in again."
    session = SimpleNamespace(who="ann")
    dialog.why.value = "  "
    asyncio.run(dialog.run())
    assert said.text == "Say why, for the record."
    assert ran == []
    dialog.why.value = "because"
    asyncio.run(dialog.run())
    assert ran == ["because"]


@pytest.mark.parametrize(
    "text",
    [
        "", "--database postgresql://me:secret@host/db", "--database=postgresql://me:secret@host/db",
        "postgresql://host/db?password=secret",
    ],
)  # fmt: skip
def test_what_pages_would_show_has_no_secret(text: str) -> None:
    with pytest.raises(ValueError, match=r"@FILE|name it") as refused:
        words_of(text)
    assert "secret" not in str(refused.value)
    assert words_of("--database @w.url --name 'my inbox'")[-1] == "my inbox"
