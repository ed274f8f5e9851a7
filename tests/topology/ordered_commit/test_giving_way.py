"""A later event gives way to an older one that needs what it holds, such as a row's lock."""

from tests.topology.ordered_commit.driven import Driven
from topology.ordered_commit import Actions


def test_what_gives_way_runs_again_after_the_older_event_and_it_counts_for_nothing() -> None:
    driven = Driven(rollbacks=1)
    driven.arrive("a", "b", "c")
    assert driven.begin() == [0, 1, 2]
    driven.finish(2)
    older, later = driven.grants[0], driven.grants[2]
    assert driven.core.give_way(later, older, driven.now).roll_back == (later,)
    assert driven.core.give_way(later, older, driven.now) == Actions()
    assert driven.begin() == [], "it waits for the older one"
    driven.finish(0)
    assert driven.commit() == [0]
    assert driven.begin() == [2]
    assert not driven.grants[2].settle


def test_a_running_later_event_is_cancelled() -> None:
    driven = Driven()
    driven.arrive("a", "b")
    driven.begin()
    older, later = driven.grants[0], driven.grants[1]
    assert driven.core.give_way(later, older, driven.now).cancel == (later,)
    driven.finish(0)
    driven.commit()
    assert driven.begin() == [], "its attempt has not ended"
    driven.core.ended(later, driven.now)
    assert driven.begin() == [1]


def test_older_events_and_those_in_a_unit_do_not_give_way() -> None:
    driven = Driven(order="stream")
    driven.arrive("a", "b")
    driven.begin()
    older, later = driven.grants[0], driven.grants[1]
    assert driven.core.give_way(older, later, driven.now) == Actions()
    driven.finish(1)
    assert driven.core.take_commits(driven.now) == [later]
    assert driven.core.give_way(later, older, driven.now) == Actions()


def test_a_streams_next_event_waits_until_the_one_before_is_durable_if_that_is_asked_for() -> None:
    driven = Driven(upon_staged=False)
    driven.arrive("slow", "a", "a", "a")
    assert driven.begin() == [0, 1]
    driven.finish(1)
    assert driven.begin() == []
    driven.finish(0)
    assert driven.commit() == [0, 1]
    assert driven.begin() == [2]
    driven.finish(2)
    assert driven.begin() == []
    driven.commit()
    assert driven.begin() == [3]
