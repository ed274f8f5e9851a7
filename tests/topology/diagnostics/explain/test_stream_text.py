"""What an account says of the topics around a stream, and that it says it safely."""

import subprocess
from typing import Any

import orjson
import pytest

from tests.topology.diagnostics.explain.durable import explained, send
from tests.topology.diagnostics.explain.failing_board import board, first
from tests.topology.handled import driver_of, order
from topology import (
    Event,
    ask,
    halt,
    park,
    redeliver,
    retry,
)
from topology.diagnostics.explain import account_text
from topology.diagnostics.explain.command_log import pending_command
from topology.diagnostics.explain.remedies import quoted
from topology.diagnostics.explain.side_filters import mentions
from topology.engine.commands.command import Command
from topology.engine.commit_unit import CommitUnit


def test_an_id_is_looked_for_as_a_word() -> None:
    guid = "0f1d2c3b-4a59-6877-8695-a4b3c2d1e0ff"
    record: Any = type("R", (), {"key": None, "headers": [], "value": b""})
    for text, stream, is_in in [
        (b'{"id":"a"}', "a", True),
        (b'{"id":"ab"}', "a", False),
        (b"id=A;", "a", True),
        (guid.replace("-", "").upper().encode(), guid, True),
        (b"\xff\xfea\x00", "a", True),
        (b'{"id": "3"}', "3|EUR", True),
    ]:
        record.value = text
        assert mentions(stream)(record) is is_in, text
    record.value, record.headers = None, [("id", b"a"), ("none", None)]
    assert mentions("a")(record)


def test_redelivery_says_which_attempt_and_when_it_is_given_up() -> None:
    driver = driver_of(board, buffer=4, full=redeliver(delay=2, limit=4))
    send(driver, 2, 9)
    found = explained(driver)
    text = account_text(found)
    assert "9: attempt 1 of 4" in text
    assert "else sequence 9 goes to shop.dead, unless the stream moves" in text
    dies = next(n.when for n in found.next if "goes to shop.dead" in n.what)
    assert dies is not None
    seconds = (dies - driver.now) / 1000
    driver.advance(seconds - 1)
    assert driver.counts("board").dead == 0
    assert "9: attempt 4 of 4" in account_text(explained(driver))
    driver.advance(1.1)
    assert driver.counts("board").dead == 1


def test_an_event_in_redelivery_is_counted_once() -> None:
    driver = driver_of(board, buffer=4, full=redeliver(delay=2, limit=600))
    send(driver, 2, 9, 10)
    records = driver._storage.topics["shop.board.redeliver"]
    # A worker has sent it again, and its position is not durable yet.
    driver._storage.append(
        "shop.board.redeliver", records[0].key, records[0].value, records[0].headers, driver.now
    )
    found = explained(driver)
    assert sorted(away.sequence for away in found.context.redelivering) == [9, 10]
    assert "redelivering    2: 9 to 10" in account_text(found)


def test_commands_that_wait_are_told() -> None:
    driver = driver_of(board)
    send(driver, 2)
    given = driver.now - 120_000
    command = Command("skip", "board", "a", 1, "ann", given=given, expires=given + 600_000)
    text = account_text(explained(driver, pending=(pending_command(command, 0),)))
    assert "commands        skip a 1 by ann, 2 min ago: waits, for 8 min more" in text


def test_what_was_not_looked_at_is_said() -> None:
    driver = driver_of(board)
    send(driver, 1)
    found = explained(driver, unseen=("only the last 5 offsets of shop.dead were read",))
    assert "in order, in what was read" in first(found)
    assert "only the last 5 offsets of shop.dead were read" in account_text(found)


def test_nothing_of_a_message_reaches_a_terminal_raw() -> None:
    def handler(event: Event) -> None:
        raise ValueError("\x1b[2J" + "y" * 5000)

    stream = "\x1b[31m\u202ered" + "x" * 500
    for policies in ({}, {"error": park()}, {"error": halt()}, {"error": retry(3, 1)}):
        driver = driver_of(handler, **policies)
        driver.pipe("orders", order(1, stream))
        driver.pipe("orders", orjson.dumps({"id": stream, "n": "\x1b[0m"}))
        text = account_text(explained(driver, stream))
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert max(map(len, text.splitlines())) < 1300


def test_a_shell_gives_the_command_the_very_id() -> None:
    words = ["skip", "it's \\ \x1b[31m\u202e\U000e0001 é", "-- x"]
    line = f"printf '%s\\0' {quoted(words)}"
    assert quoted(words).isprintable()
    said = subprocess.run(
        ["bash", "-c", line], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"}
    )
    assert said.stdout.decode().split("\0")[:-1] == words


@pytest.mark.parametrize(
    ("names", "later", "blocks"),
    [(["blocked"], 5, True), (["blocked", "unblocked"], 5, False), (["blocked"], 25, False)],
)
def test_a_handler_that_blocks_is_told(names: list[str], later: int, blocks: bool) -> None:
    driver = driver_of(board)
    send(driver, 1)
    unit = CommitUnit("orders", 0, now=driver.now)
    for name in names:
        body = {
            "name": name, "view": "board", "stream": "a", "sequence": 2, "when": driver.now,
            "since": driver.now - 10_000, "seconds": 10, "timeout": 3, "who": "host/17",
        }  # fmt: skip
        out = (b"a", orjson.dumps(body), driver.now, [("view", b"board")])
        unit.keyed["shop.audit"].append(out)
    driver._storage.commit(unit)
    driver.now += later * 1000
    found = explained(driver)
    assert found.well is not blocks
    told = "its handler is at sequence 2 for 15 s, of 3 s that the view allows"
    assert (told in first(found)) is blocks


def test_what_a_relay_was_asked_for_is_told() -> None:
    driver = driver_of(board, gap=ask("orders", after=5, every=60))
    send(driver, 1, 4, 7)
    driver.advance(4)
    assert explained(driver).context.requested == ()
    driver.advance(21)
    found = explained(driver)
    assert [(each.first, each.last) for each in found.context.requested] == [(2, 3), (5, 6)]
    assert "asked for       2 to 3, 5 to 6, 2001-09-09 01:46:45 UTC (20 s ago)" in account_text(
        found
    )
    assert explained(driver, "b").context.requested == ()
