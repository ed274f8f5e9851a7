"""The account of one stream: every situation that it can be in, and what would help."""

import orjson
import pytest

from tests.topology.diagnostics.explain.durable import OWNER, explained, obeyed, send
from tests.topology.handled import driver_of
from topology import (
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    halt,
    park,
    rebuild_stream,
    redeliver,
    retry,
    skip,
    spill,
)
from topology.diagnostics.explain import Arrival, Missing, account_text


def board(event: Event) -> None:
    if event.kind == "Bad":
        raise ValueError("not yet")


def all_help(driver: TopologyTestDriver) -> list[str]:
    """The commands that the account suggests, of which none is refused."""
    names = []
    for remedy in explained(driver).remedies:
        line = remedy.command
        trial = TopologyTestDriver(driver.topology, now=driver.now)
        for view, table in driver._storage.stores.items():
            trial._storage.stores[view].write(table.rows.items())
        trial.restart()
        assert obeyed(trial, line).done, line
        names.append(line.split()[3])
    return names


def test_a_stream_in_order_waits_for_nothing() -> None:
    driver = driver_of(board)
    send(driver, 1, 2, 3)
    newest = Arrival(3, "orders", 0, 2, driver.now)
    found = explained(driver, newest=newest, position=9, end=9, looked=3)
    assert (found.situation, found.place.last, found.causes) == ("in order", 3, ())
    assert found.context.newest == newest
    assert [n.what for n in found.next] == ["sequence 4 is handled when it comes"]
    assert found.remedies == ()
    assert "in order" in account_text(found).splitlines()[0]


def test_a_stream_that_nobody_has_seen_is_unknown() -> None:
    driver = driver_of(board)
    send(driver, 1, 2)
    found = explained(driver, "b")
    assert (found.situation, found.place.last) == ("unknown", None)
    assert "has seen nothing of it" in account_text(found)
    assert "last processed  nothing" in account_text(found)


def test_a_stream_whose_messages_are_not_read_yet() -> None:
    driver = driver_of(board)
    send(driver, 1)
    found = explained(driver, unread=2, position=1, end=40)
    assert (found.situation, found.context.lag) == ("unread", 39)
    assert found.causes == ("2 messages of the stream are not read yet",)
    assert "39 offsets" in found.next[0].what
    alone = explained(driver, unread=1, position=1, end=40)
    assert alone.causes == ("1 message of the stream is not read yet",)


def test_a_stream_that_waits_says_for_what_and_since_when() -> None:
    driver = driver_of(board)
    send(driver, 1, 2)
    driver.advance(5)
    since = driver.now
    send(driver, 4)
    driver.advance(7)
    send(driver, 8, 5)
    found = explained(driver)
    assert (found.situation, found.place.last, found.place.since) == ("waiting", 2, since)
    assert found.place.missing == (Missing(3, 3, 1), Missing(6, 7, 2))
    assert (found.place.ring, found.place.spilled, found.place.waits) == (3, 0, (4, 5, 8))
    assert found.context.newest is not None
    assert (found.context.newest.topic, found.context.newest.arrived) == ("orders", driver.now)
    assert found.causes == ("sequence 3 is missing, and 3 events wait behind",)
    assert "gap policy is to wait" in found.next[0].what
    assert all_help(driver) == ["skip"]
    assert "since 2001-09-09 01:46:45 UTC (7 s ago)" in account_text(found)


def test_a_range_that_is_missing_is_given_up_by_one_command() -> None:
    driver = driver_of(board)
    send(driver, 5, 9)
    assert explained(driver).place.missing == (Missing(1, 4, 4), Missing(6, 8, 3))
    (remedy,) = explained(driver).remedies
    assert remedy.command == "faust -A shop skip a 4 --view board --force"
    assert obeyed(driver, remedy.command).facts["skipped"] == 4
    assert (explained(driver).place.last, explained(driver).place.missing) == (
        5,
        (Missing(6, 8, 3),),
    )
    assert explained(driver).passed.skipped == ((1, 4),)


def test_nothing_is_to_be_given_up_that_may_lie_unread() -> None:
    driver = driver_of(board)
    send(driver, 3)
    read = explained(driver, position=5, end=9, unkeyed=7)
    assert [each.command.split()[3] for each in read.remedies] == ["skip"]
    for some in ({"unread": 1}, {"hidden": True}):
        found = explained(driver, position=5, end=9, unkeyed=7, **some)
        (remedy,) = found.remedies
        assert remedy.command == "faust -A shop explain a --view board"
        assert "re-keyed 7 offsets of the source topics" in remedy.effect
        assert "partition 0 of its input up to offset 9" in remedy.effect
        assert "skip" not in account_text(found)


def test_what_is_beyond_the_ring_is_told_apart() -> None:
    driver = driver_of(board, buffer=4, full=spill())
    send(driver, *range(2, 40))
    found = explained(driver)
    assert (found.place.ring, found.place.spilled, len(found.place.waits)) == (3, 35, 20)
    assert found.place.missing == (Missing(1, 1, 1),)
    assert "38: 2, 3" in account_text(found)
    assert "35 on disk beyond it" in account_text(found)


def test_a_gap_that_is_given_up_says_when() -> None:
    driver = driver_of(board, gap=skip(after=30))
    send(driver, 2)
    driver.advance(10)
    found = explained(driver)
    assert found.next[1].when == driver.now + 20_000
    assert "skipped" in found.next[1].what
    assert "unread" not in found.next[1].what
    text = account_text(explained(driver, position=1, end=5, unkeyed=3, now=driver.now + 25_000))
    assert "of which 7 offsets are unread" in text
    assert "due for 5 s" in text


def test_a_parked_stream_says_what_failed() -> None:
    driver = driver_of(board, error=park())
    send(driver, 1)
    send(driver, 2, kind="Bad")
    send(driver, 3, 5)
    found = explained(driver, failure="ValueError: not yet")
    assert (found.situation, found.place.parked, found.place.last) == ("parked", 3, 1)
    assert found.causes == ("it is parked at sequence 2, which failed: ValueError: not yet",)
    assert found.place.missing == (Missing(4, 4, 1),)
    assert [n.when for n in found.next] == [None]
    assert all_help(driver) == ["redrive", "redrive", "unpark"]


def test_a_stream_held_for_a_retry_says_which_and_when() -> None:
    driver = driver_of(board, error=retry(5, backoff=8))
    send(driver, 1)
    send(driver, 2, kind="Bad")
    driver.advance(3)
    found = explained(driver)
    assert (found.situation, found.place.attempts, found.place.due) == (
        "retrying",
        1,
        driver.now + 5000,
    )
    held = "sequence 2 failed and is held for retry 1 of 5: ValueError: not yet"
    assert found.causes == (held,)
    assert [(n.what, n.when) for n in found.next] == [
        ("sequence 2 is tried again", found.place.due)
    ]
    assert all_help(driver) == ["redrive", "redrive", "unpark"]
    driver.advance(5)
    assert explained(driver).place.attempts == 2


def test_a_halted_view_is_the_first_cause() -> None:
    driver = driver_of(board, error=halt())
    send(driver, 1)
    send(driver, 2, kind="Bad")
    found = explained(driver, unread=1, position=2, end=3)
    assert found.halted == "stream a sequence 2 failed"
    assert found.causes[0] == "view board is halted: stream a sequence 2 failed"
    assert found.situation == "parked"
    assert "not read yet" in found.causes[-1]
    assert all_help(driver)[0] == "resume"
    other = explained(driver, "b")
    assert (other.situation, other.halted) == ("unknown", found.halted)
    assert "until it is resumed" in other.next[0].what


def test_a_halted_view_whose_stream_is_in_order() -> None:
    driver = driver_of(board)
    send(driver, 1)
    assert driver.command("halt", "board").done
    found = explained(driver)
    assert (found.situation, found.halted) == ("in order", "by test")
    assert all_help(driver) == ["resume"]


def test_nobody_has_the_partition() -> None:
    driver = driver_of(board)
    send(driver, 2)
    found = explained(driver, owner=None, group="Empty", partition=3)
    assert found.causes[0] == "partition 3 is assigned to nobody: no worker runs"
    assert found.remedies[0].command == "faust -A shop worker"
    assert "nothing until a worker" in found.next[0].what
    rebalancing = explained(driver, owner=None, group="PreparingRebalance")
    assert "the group is PreparingRebalance" in rebalancing.causes[0]
    assert explained(driver).context.owner == OWNER


def test_what_came_late_and_what_was_given_up() -> None:
    driver = driver_of(board, gap=skip(after=5))
    send(driver, 1, 5)
    driver.advance(5)
    send(driver, 3)
    found = explained(driver)
    assert (found.situation, found.place.last, found.well) == ("incomplete", 5, False)
    assert found.passed.skipped == ((2, 2), (4, 4))
    assert found.context.late == (Arrival(3, "shop.late", 0, 0, driver.now),)
    assert found.causes == (
        "it went on without sequence 3: late, and in shop.late",
        "it went on without sequences 2, 4: skipped, and not seen since",
    )
    assert "skipped         2, 4" in account_text(found)
    assert "came late       3 from shop.late/0 offset 0" in account_text(found)


def test_events_in_redelivery_are_not_missing() -> None:
    driver = driver_of(board, buffer=4, full=redeliver(delay=2))
    send(driver, 1, 3, 9, 8)
    found = explained(driver)
    assert (found.situation, found.place.waits) == ("waiting", (3,))
    assert {away.sequence for away in found.context.redelivering} == {8, 9}
    assert found.place.missing == (Missing(2, 2, 1), Missing(4, 7, 4))
    assert "2 events come again" in found.next[0].what
    send(driver, 2)
    found = explained(driver)
    assert (found.place.last, found.situation) == (3, "redelivering")
    driver.advance(2)
    assert {away.attempt for away in explained(driver).context.redelivering} <= {1, 2}


def test_a_stream_s_name_is_quoted() -> None:
    driver = driver_of(board, error=park())
    send(driver, 2, stream="it's; rm")
    (remedy,) = explained(driver, "it's; rm").remedies
    assert obeyed(driver, remedy.command).facts["last"] == 1
    send(driver, 2, stream="-x")
    (remedy,) = explained(driver, "-x").remedies
    assert remedy.command.endswith("-- -x 1")
    assert obeyed(driver, remedy.command).facts["last"] == 1


def test_an_account_is_json() -> None:
    driver = driver_of(board, gap=skip(after=30))
    send(driver, 2)
    found = orjson.loads(orjson.dumps(explained(driver).as_dict()))
    assert found["missing"] == [{"first": 1, "last": 1, "count": 1}]
    assert (found["last"], found["lag"], found["dead_count"]) == (0, 0, 0)
    assert found["remedies"][0]["command"].startswith("faust")
    assert found["next"][1]["when"] == driver.now + 30_000


def test_a_stream_that_is_to_be_rebuilt_and_one_that_was(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = driver_of(board, gap=skip(after=2), late=rebuild_stream())
    send(driver, 1, 4)
    driver.advance(2)
    with monkeypatch.context() as held:
        # A worker would be reading the history.
        held.setattr("topology.engine.view_task.ViewTask.rebuilds", [])
        send(driver, 3, 2, 5)
    found = explained(driver)
    assert (found.situation, found.place.rebuilt_with, found.place.waits) == (
        "rebuilding",
        (2, 3),
        (5,),
    )
    assert found.causes[0] == "2 events of it came late, and it waits until it is rebuilt"
    assert found.next[0].what.startswith("it is rebuilt: its history is read again")
    assert "to rebuild with 2, 3" in account_text(found)

    driver.advance(1)
    send(driver, 1)
    found = explained(driver)
    assert (found.situation, found.place.epoch, found.place.last) == ("in order", 1, 5)
    assert "made anew       once" in account_text(found)


def test_a_lane_is_named() -> None:
    topology = Topology("shop")
    topology.source("orders", inspector=Inspector("id", "n"))
    topology.view("board", of="orders", handler=lambda event: None, lane="lane")
    driver = TopologyTestDriver(topology)
    for lane, n in (("EUR", 1), ("USD", 2)):
        driver.pipe("orders", {"id": "a", "n": n, "lane": lane})
    found = explained(driver, "a|USD")
    assert (found.lane, found.situation) == ("USD", "waiting")
    first = account_text(found).splitlines()[0]
    assert first == (
        "stream a, lane 'USD', in view board: sequence 1 is missing, and 1 event waits behind"
    )
