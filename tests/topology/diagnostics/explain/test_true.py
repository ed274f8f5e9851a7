"""No account says that all is well over something that is dead, failed, late or malformed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.diagnostics.explain.durable import explained, obeyed, send
from tests.topology.diagnostics.explain.failing_board import board, first
from tests.topology.handled import driver_of
from topology import (
    Event,
    Upsert,
    halt,
    park,
    redeliver,
    retry,
    skip,
    spill,
)
from topology.diagnostics.explain import account_text


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
        "sequitur rebuild run --app shop --view board --stream a --read-store URL"
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


def test_a_stream_that_was_read_and_is_not_known_is_not_one_of_which_nothing_came() -> None:
    driver = driver_of(board)
    send(driver, 1)
    found = explained(driver, "z", read=3)
    assert (found.situation, found.well) == ("forgotten", False)
    assert "3 messages of it were read, and the view knows nothing of it" in first(found)
    assert explained(driver, "z").situation == "unknown"


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


def test_a_halted_view_is_not_said_to_read_no_offsets_of_what_is_unread() -> None:
    driver = driver_of(board, buffer=2, full=halt())
    send(driver, 3, 9, 4)
    found = driver.explain("board", "a")
    assert "of the stream are not read yet" in " ".join(found.causes)
    assert [each.what for each in found.next][:2] == [
        "nothing in view board until it is resumed; then:",
        "the view reads on",
    ]
