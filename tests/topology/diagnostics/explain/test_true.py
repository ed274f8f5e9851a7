"""No account says that all is well over something that is dead, failed, late or malformed."""

import subprocess
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.diagnostics.explain.durable import explained, obeyed, send
from tests.topology.handled import driver_of, order
from topology import (
    Event,
    TopologyTestDriver,
    Upsert,
    ask,
    earliest_seen,
    halt,
    opened_by,
    park,
    redeliver,
    retry,
    skip,
    spill,
)
from topology.diagnostics.explain import Account, account_text
from topology.diagnostics.explain.command_log import pending_command
from topology.diagnostics.explain.remedies import quoted
from topology.diagnostics.explain.side_records import mentions
from topology.engine.commands.command import Command
from topology.engine.commit_unit import CommitUnit


def board(event: Event) -> None:
    if event.kind == "Bad":
        raise ValueError("not yet")


def first(found: Account) -> str:
    return account_text(found).splitlines()[0]


def dead_stream(*sequences: int) -> TopologyTestDriver:
    """A stream of which sequence 1 is missing, and what the ring had no room for died."""
    driver = driver_of(board, buffer=4, full=redeliver(delay=1, limit=3))
    send(driver, *sequences)
    driver.advance(1000)
    return driver


def test_a_stream_whose_events_are_dead_is_not_in_order() -> None:
    driver = dead_stream(2, *range(10, 428))
    assert driver.counts("board").dead == 418
    send(driver, 1, 3, 4, 5, 6, 7, 8, 9)
    found = explained(driver)
    assert (found.situation, found.place.last, len(found.passed.ahead), found.well) == (
        "dead",
        9,
        418,
        False,
    )
    assert found.causes[0].startswith("sequences 10 to 427 (418) of it lie in shop.dead: the ring")
    assert "in order" not in account_text(found)
    assert [r.command for r in found.remedies] == [
        "faust -A shop redrive-dead --view board --stream a"
    ]
    assert "the stream does not pass sequence 10 by itself" in found.next[0].what


def test_what_lies_in_the_dead_topic_is_not_missing_and_nobody_is_told_to_skip_it() -> None:
    driver = dead_stream(2, 8, 9, 12)
    send(driver, 1, 3, 5)
    found = explained(driver)
    assert found.situation == "waiting"
    assert [(gap.first, gap.last) for gap in found.place.missing] == [(4, 4), (6, 7), (10, 11)]
    assert [each.sequence for each in found.passed.ahead] == [8, 9, 12]
    send(driver, 4, 6, 7, 10)
    found = explained(driver)
    assert (found.situation, found.place.last, found.place.waits) == ("dead", 7, (10,))
    assert "sequences 8 to 9, 12 (3) of it lie in shop.dead" in found.causes[0]
    assert "and 1 wait behind" in found.causes[0]
    assert not any(" skip " in remedy.command for remedy in found.remedies)


def test_a_dead_event_that_came_another_time_is_told_as_such() -> None:
    driver = dead_stream(2, 8)
    send(driver, 1, *range(3, 10))
    found = explained(driver)
    assert (found.situation, found.place.last, found.well) == ("in order", 9, True)
    assert [each.sequence for each in found.passed.back] == [8]
    assert "was dead        sequence 8: put back, or came another time" in account_text(found)


def test_an_event_that_cannot_be_is_no_gap_of_billions() -> None:
    driver = driver_of(board)
    send(driver, 1, 10**15)
    found = explained(driver)
    assert (found.situation, found.place.last, found.place.missing) == ("incomplete", 1, ())
    assert "it went on without sequence 1000000000000000, in shop.dead" in first(found)


def test_a_dead_event_that_was_redriven_is_told_as_such() -> None:
    driver = dead_stream(2, 4, 8)
    assert len(explained(driver).passed.ahead) == 1
    assert driver.redrive_dead("board") == {"a": [8]}
    driver.advance(1)
    found = driver.explain("board", "a")
    assert (found.situation, found.passed.ahead, len(found.passed.ahead)) == ("waiting", (), 0)
    assert [(each.sequence, each.again) for each in found.passed.back] == [(8, True)]
    assert not any("redrive-dead" in remedy.command for remedy in found.remedies)
    send(driver, 1, 3, 5, 6, 7)
    found = driver.explain("board", "a")
    assert (found.situation, found.place.last, found.well) == ("in order", 8, True)


@pytest.mark.parametrize("how", ["unpark", "skip", "drop"])
def test_what_an_operator_gave_up_is_not_forgotten(how: str) -> None:
    driver = driver_of(board, error=park())
    send(driver, 1)
    send(driver, 2 if how != "skip" else 3, kind="Bad" if how != "skip" else "Ok")
    sequence = 3 if how == "skip" else None
    assert driver.command(how, "board", "a", sequence, force=True).done
    send(driver, *((1,) if how == "drop" else (4, 5) if how == "skip" else (3, 4)))
    found = explained(driver)
    assert (found.situation, found.well) == ("incomplete", False)
    assert f"in shop.dead: test {how[:4]}" in found.causes[0]
    assert "in order" not in account_text(found)


def test_a_stream_whose_only_event_failed_is_not_in_order() -> None:
    driver = driver_of(board)
    send(driver, 1, kind="Bad")
    found = explained(driver)
    assert (found.situation, found.place.last, found.well) == ("incomplete", 1, False)
    assert found.causes == (
        "it went on without sequence 1, whose handler failed: ValueError: not yet",
    )
    assert "in order" not in account_text(found)
    assert found.remedies[-1].command == (
        "sequitur rebuild run --app shop --view board --stream a --store URL"
    )


def test_a_failure_that_a_retry_mended_is_no_news() -> None:
    bad = {2}

    def handler(event: Event) -> None:
        if event.sequence in bad:
            raise ValueError("not yet")

    driver = driver_of(handler, error=retry(5, backoff=8))
    send(driver, 1, 2)
    bad.clear()
    driver.advance(8)
    found = explained(driver)
    assert (found.situation, found.place.last, found.well) == ("in order", 2, True)


def test_a_malformed_message_that_names_the_stream_is_told() -> None:
    driver = driver_of(board)
    send(driver, 1)
    driver.pipe("orders", b'{"id": "a", "n": "no number"}')
    driver.pipe("orders", b'{"id": "ab", "n": "no number"}')
    found = explained(driver)
    assert (found.situation, found.well, len(found.context.malformed)) == ("malformed", False, 1)
    assert "1 message in shop.malformed has its id in the text, and may be of it" in first(found)
    assert "in order" not in account_text(found)
    unseen = explained(driver, "ab")
    assert (unseen.situation, len(unseen.context.malformed)) == ("malformed", 1)


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
    records = driver._kept.topics["shop.board.redeliver"]
    # A worker has sent it again, and its position is not durable yet.
    driver._kept.append(
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
    found = explained(driver, unseen=("looked at the last 5 offsets of shop.dead only",))
    assert "in order, as far as was looked" in first(found)
    assert "looked at the last 5 offsets of shop.dead only" in account_text(found)


def test_nobody_is_told_to_skip_what_may_lie_where_nobody_looked() -> None:
    driver = dead_stream(2, 8)
    unseen = ("looked at the last 5 offsets of shop.dead only",)
    (remedy,) = explained(driver, dead=(), unseen=unseen).remedies
    assert remedy.effect.endswith("It may lie in shop.dead: look further first, with --scan")
    assert not any("--scan" in remedy.effect for remedy in explained(driver).remedies)


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


def test_a_stream_that_was_read_and_is_not_known_is_not_one_of_which_nothing_came() -> None:
    driver = driver_of(board)
    send(driver, 1)
    found = explained(driver, "z", read=3)
    assert (found.situation, found.well) == ("forgotten", False)
    assert "3 messages of it were read, and the view knows nothing of it" in first(found)
    assert explained(driver, "z").situation == "unknown"


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
    driver._kept.commit(unit)
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


def test_a_driver_explains() -> None:
    driver = driver_of(board)
    send(driver, 1, 2)
    assert driver.explain("board", "a").well
    driver.command("halt", "board")
    send(driver, 3)
    found = driver.explain("board", "a")
    assert (found.well, found.context.unread) == (False, 1)
    assert found.causes[0] == "view board is halted: by test"


POLICIES: list[dict[str, Any]] = [
    {"buffer": 2, "full": redeliver(delay=1, limit=2)},
    {"buffer": 2, "full": spill(), "gap": skip(after=3)},
    {"error": park(), "buffer": 3, "full": spill()},
    {"error": retry(1, 1, then=park())},
    {"error": retry(1, 1)},
]
DOINGS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "bad", "junk", "advance", "skip", "unpark"]),
        st.integers(1, 8),
    ),
    max_size=25,
)


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@given(doings=DOINGS)
def test_all_is_well_only_if_every_event_was_handled(
    policies: dict[str, Any], doings: list[tuple[str, int]]
) -> None:
    """Whatever happens, `well` means: all that was sent was handled, but for what settles."""
    handled: set[int] = set()

    def handler(event: Event) -> Any:
        board(event)
        handled.add(event.sequence)
        yield Upsert("board", key={"id": event.stream}, values={"n": event.sequence})

    driver = driver_of(handler, **policies)
    sent: set[int] = set()
    junk = False
    for what, number in doings:
        match what:
            case "send" | "bad":
                sent.add(number)
                send(driver, number, kind="Ok" if what == "send" else "Bad")
            case "junk":
                junk = True
                driver.pipe("orders", b'{"id": "a", "n": "x"}')
            case "advance":
                driver.advance(number)
            case _:
                driver.command(what, "board", "a", number, force=True)
        found = explained(driver)
        text = account_text(found)
        if found.well:
            assert not junk
            assert sent <= handled, text
            assert found.place.last in ({*handled, 0} if sent else {0, None}) | {None}, text
        if found.situation != "in order":
            assert ": in order" not in text
        elif not found.causes:
            assert found.well, text
        for remedy in found.remedies:
            line = remedy.command
            assert line.startswith("faust -A shop ") or line.startswith("sequitur rebuild")


def test_what_helps_is_what_a_driver_obeys() -> None:
    driver = driver_of(board, error=park())
    send(driver, 1, kind="Bad")
    (*_, unpark) = explained(driver).remedies
    assert obeyed(driver, unpark.command).done


def joined(**view: Any) -> TopologyTestDriver:
    """Sequences 7 and 8 of a stream that the view joins at 7."""
    driver = driver_of(board, **view)
    driver.pipe("orders", order(7, kind="Open"))
    driver.advance(5)
    driver.pipe("orders", order(8))
    assert driver.last("board", "a") == 8
    return driver


@pytest.mark.parametrize("start", [earliest_seen(after=5), opened_by("Open")])
def test_a_stream_that_was_joined_midway_is_in_order(start: Any) -> None:
    driver = joined(start=start)
    found = explained(driver)
    assert (found.situation, found.causes, found.passed.skipped) == ("in order", (), ())
    assert found.well


@pytest.mark.parametrize("start", [earliest_seen(after=5), opened_by("Open")])
def test_what_comes_from_below_where_a_stream_was_joined_is_late_and_nothing_is_given_up(
    start: Any,
) -> None:
    driver = joined(start=start)
    send(driver, 3, 1)
    found = explained(driver)
    assert found.situation == "incomplete"
    assert found.causes == ("it went on without sequences 1, 3 (2): late, and in shop.late",)


def test_a_gap_behind_where_a_stream_was_joined_is_given_up() -> None:
    driver = joined(start=earliest_seen(after=5), gap=skip(after=5))
    send(driver, 10)
    driver.advance(5)
    found = explained(driver)
    assert (found.situation, found.passed.skipped, found.well) == ("incomplete", ((9, 9),), False)


def test_a_halted_view_is_not_said_to_read_no_offsets_of_what_is_unread() -> None:
    driver = driver_of(board, buffer=2, full=halt())
    send(driver, 3, 9, 4)
    found = driver.explain("board", "a")
    assert "of the stream are not read yet" in " ".join(found.causes)
    assert [each.what for each in found.next][:2] == [
        "nothing in view board until it is resumed; then:",
        "the view reads on",
    ]


def test_the_beginning_of_a_stream_that_an_event_opens_is_not_given_up() -> None:
    driver = driver_of(board, start=opened_by("On"), gap=skip(after=5))
    for sequence, kind in ((5, "On"), (6, "Is")):
        driver.pipe("orders", order(sequence, kind=kind))
    driver.advance(20)
    found = explained(driver)
    assert (found.situation, found.well, found.causes) == ("in order", True, ())
    assert driver.counts("board").skipped == 0
    # What is missing behind it is.
    driver.pipe("orders", order(9, kind="Is"))
    driver.advance(20)
    driver.restart()
    assert explained(driver).causes == (
        "it went on without sequences 7 to 8: given up, and not seen since",
    )


def test_nor_is_what_is_below_where_a_closed_stream_began_again() -> None:
    driver = driver_of(
        board, start=opened_by("On"), gap=skip(after=5), closes="End", retention=1000,
        reopen="start",
    )  # fmt: skip
    for sequence, kind in ((2, "On"), (3, "End"), (8, "On"), (9, "Is")):
        driver.pipe("orders", order(sequence, kind=kind))
    driver.advance(20)
    driver.restart()
    found = explained(driver)
    assert (found.situation, found.well, found.causes) == ("in order", True, ())
    assert driver.counts("board").skipped == 0


def test_what_was_given_up_as_nothing_opened_the_stream_is() -> None:
    driver = driver_of(board, start=opened_by("On"), gap=skip(after=5))
    driver.pipe("orders", order(4, kind="Is"))
    driver.advance(20)
    assert driver.counts("board").skipped == 3
    assert explained(driver).causes == (
        "it went on without sequences 1 to 3: given up, and not seen since",
    )
