"""What lies in the dead topic is told, and nobody is told to give it up."""

from tests.topology.diagnostics.explain.durable import explained, obeyed, send
from tests.topology.diagnostics.explain.failing_board import board, first
from tests.topology.handled import driver_of
from topology import (
    Event,
    Record,
    TopologyTestDriver,
    redeliver,
)
from topology.diagnostics.explain import account_text
from topology.diagnostics.explain.work_tally import StreamWork
from topology.engine.commit_unit import CommitUnit
from topology.engine.redelivery.records import AT_WORKERS, GONE, bury


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
    assert "and 1 event waits behind" in found.causes[0]
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


def test_nobody_is_told_to_skip_what_may_lie_where_nobody_looked() -> None:
    driver = dead_stream(2, 8)
    unseen = ("only the last 5 offsets of shop.dead were read",)
    (remedy,) = explained(driver, dead=(), unseen=unseen).remedies
    assert remedy.effect.endswith("It may lie in shop.dead: read more of it first, with --scan")
    assert not any("--scan" in remedy.effect for remedy in explained(driver).remedies)


def buried(driver: TopologyTestDriver, sequence: int, reason: str, stream: str = "a") -> None:
    """An event of the stream that goes to the dead topic."""
    view, unit = driver.topology.views["board"], CommitUnit("orders", 0, now=driver.now)
    message = Record("orders", 0, 7, None, None, (), driver.now)
    bury(view, Event(stream, sequence, None, None, message, driver.now), reason, unit)
    for key, value, time, headers in unit.keyed[view.dead_topic]:
        driver._storage.append(view.dead_topic, key, value, headers, time)


def test_what_died_at_the_workers_of_a_view_is_lost_and_not_put_back() -> None:
    driver, work = driver_of(board), StreamWork(owner="worker-1")
    send(driver, 1, 2, 3)
    buried(driver, 2, f"its stream was unparked without it{AT_WORKERS}")
    found = explained(driver, work=work)
    assert (found.situation, found.well) == ("incomplete", False)
    assert [each.sequence for each in found.passed.lost] == [2]
    assert "it went on without sequence 2, in shop.dead" in first(found)
    # Nor where the first stage has forgotten its stream.
    buried(driver, 1, f"its stream was dropped{AT_WORKERS}", "gone")
    found = explained(driver, "gone", work=work)
    assert (found.situation, found.well, found.passed.ahead) == ("incomplete", False, ())
    assert not any("redrive-dead" in remedy.command for remedy in found.remedies)


def test_nobody_is_told_to_put_back_what_has_no_body() -> None:
    driver = driver_of(board)
    send(driver, 1)
    buried(driver, 2, GONE)
    found = explained(driver)
    assert (found.situation, found.well) == ("dead", False)
    assert "what is here has no body" in first(found)
    assert [(gap.first, gap.last) for gap in found.place.missing] == [(2, 2)]
    assert found.next[0].what.endswith("until it is sent again")
    (remedy,) = found.remedies
    assert remedy.command == "faust -A shop skip a 2 --view board"
    # It may have been sent again already.
    (remedy,) = explained(driver, unread=1, end=1).remedies
    assert remedy.command == "faust -A shop explain a --view board"
    send(driver, 5)
    found = explained(driver)
    assert found.situation == "waiting"
    assert [(gap.first, gap.last) for gap in found.place.missing] == [(2, 4)]
    assert "what is here has no body" in account_text(found)
    (remedy,) = found.remedies
    assert remedy.command == "faust -A shop skip a 4 --view board --force"
    assert obeyed(driver, remedy.command).done
    found = explained(driver)
    assert (found.place.last, [each.sequence for each in found.passed.lost]) == (5, [2])


def test_what_can_be_put_back_is_even_if_something_else_has_no_body() -> None:
    driver = dead_stream(2, 8)
    buried(driver, 9, GONE)
    found = explained(driver)
    assert [(gap.first, gap.last) for gap in found.place.missing] == [(1, 1), (3, 7), (9, 9)]
    (remedy,) = found.remedies
    assert remedy.effect == "puts 1 event from shop.dead back in place"
