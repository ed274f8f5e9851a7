"""Open events and their bytes are limited: intake pauses, and that is counted."""

from tests.topology.ordered_commit.driven import Driven


def test_intake_pauses_at_the_limit_of_events_and_goes_on_with_a_quarter_free() -> None:
    driven = Driven(order="stream", max_events=8)
    driven.arrive(*"abcdefg")
    assert driven.core.room
    driven.arrive("h")
    assert not driven.core.room
    assert driven.core.counts.paused == 1
    driven.begin()
    driven.finish(0)
    driven.commit()
    assert not driven.core.room
    driven.finish(1)
    driven.commit()
    assert driven.core.room
    driven.arrive("i", "j")
    assert driven.core.counts.paused == 2


def test_intake_pauses_at_the_limit_of_bytes_that_are_staged() -> None:
    driven = Driven(max_bytes=100)
    driven.arrive("a", "b", "c")
    driven.begin(2)
    driven.finish(1, size=100)
    assert not driven.core.room
    assert driven.begin() == [], "what would begin could only add to it"
    driven.finish(0, size=50)
    driven.commit()
    assert driven.core.room
    assert driven.begin() == [2]


def test_over_the_limit_of_bytes_the_oldest_event_still_begins() -> None:
    driven = Driven(max_bytes=100, start=lambda event: -event.offset)
    driven.arrive("a", "b", "c")
    driven.begin(1)
    driven.finish(2, size=1000)
    assert driven.begin() == [0]
    driven.finish(0)
    assert driven.commit() == [0]
    assert driven.begin() == [1]


def test_rolling_back_frees_what_was_staged() -> None:
    driven = Driven(max_bytes=100)
    driven.arrive("a", "b")
    driven.begin()
    driven.finish(1, size=1000)
    driven.pass_time(0)
    driven.pass_time(100)
    assert driven.core.room


def test_limits_are_ten_thousand_events_and_64_mb() -> None:
    rules = Driven().core.rules
    assert (rules.max_events, rules.max_bytes) == (10_000, 64 * 1024 * 1024)


def test_nothing_is_kept_of_streams_without_open_events() -> None:
    driven = Driven(order="stream")
    for number in range(300):
        driven.arrive(f"s{number}", None)
        driven.begin()
        driven.finish(2 * number, 2 * number + 1)
        driven.commit()
    core = driven.core
    assert not core._streams
    assert not core._attempts._queues
    assert not core._progress.open
    assert len(core._attempts.startable._by_age) < 100
