"""What is done when later work is finished and an older event is not."""

import pytest

from tests.topology.ordered_commit.driven import Driven, key
from topology.ordered_commit import OpenEvent, Touched, wait_and_commit, wait_and_roll_back
from topology.ordered_commit.touched_keys import RUNS


def slow(count: int = 3, **rules: object) -> Driven:
    """Events of as many streams, of which all but the oldest are finished."""
    driven = Driven(**rules)
    driven.arrive(*(f"s{number}" for number in range(count)))
    driven.begin(count)
    driven.finish(*range(1, count))
    assert driven.commit() == []
    return driven


def test_an_older_event_that_has_not_begun_is_begun_first() -> None:
    driven = Driven(start=lambda event: -event.offset)
    driven.arrive("a", "b", "c")
    assert driven.begin(1) == [2]
    driven.finish(2)
    driven.commit()
    assert driven.begin(1) == [0]


def test_a_running_older_event_is_told_to_hurry_once() -> None:
    driven = Driven(hurry_after=0.5)
    driven.arrive("a", "b", "c", "d")
    driven.begin()
    driven.finish(2)
    assert driven.pass_time(0.4) == ([], [], [])
    assert driven.pass_time(0.1) == ([0, 1], [], []), "not 3, for which nothing waits"
    assert driven.grants[0].hurried
    assert driven.pass_time(5.0) == ([], [], [])


def test_after_the_wait_later_finished_work_is_rolled_back_newest_first() -> None:
    driven = slow(4, when_older_is_open=wait_and_roll_back(10))
    assert driven.pass_time(9.9)[1] == []
    assert driven.pass_time(0.1) == ([], [3, 2, 1], [])
    assert driven.core.counts.rolled_back == 3


def test_what_was_rolled_back_runs_again_after_the_older_one() -> None:
    driven = slow(when_older_is_open=wait_and_roll_back(10))
    driven.arrive("new")
    driven.pass_time(10)
    assert driven.begin() == []
    driven.finish(0)
    assert driven.commit() == [0]
    assert driven.begin() == [1, 2, 3]
    driven.finish(1, 2, 3)
    assert driven.commit() == [1, 2, 3]


def test_what_finishes_after_the_wait_is_rolled_back_too() -> None:
    driven = Driven(when_older_is_open=wait_and_roll_back(10))
    driven.arrive("a", "b", "c")
    driven.begin()
    driven.finish(1)
    driven.pass_time(0)
    driven.pass_time(10)
    driven.finish(2)
    assert driven.pass_time(0.001) == ([], [2], [])


def test_the_more_events_a_look_has_seen_the_later_is_the_next_one() -> None:
    driven = slow(1000, when_older_is_open=wait_and_commit(10))
    driven.pass_time(10)
    driven.arrive("z")
    driven.begin()
    driven.finish(1000)
    driven.core.take_commits(driven.now)
    assert driven.now + 0.005 < driven.core.due < driven.now + 0.05


def test_one_that_waits_to_be_pulled_does_not_run_and_is_not_cancelled_for_that() -> None:
    driven = slow(2, when_older_is_open=wait_and_roll_back(10, cancel_older=True), time_limit=15)
    driven.core.begins(driven.grants[0], None)
    assert driven.pass_time(10) == ([0], [1], [])
    assert driven.pass_time(100) == ([], [], [])
    driven.core.begins(driven.grants[0], driven.now)
    assert driven.pass_time(15) == ([], [0], [0])


def test_the_running_older_one_is_cancelled_too_if_that_is_chosen() -> None:
    driven = slow(2, when_older_is_open=wait_and_roll_back(10, cancel_older=True))
    old = driven.grants[0]
    assert driven.pass_time(10) == ([], [1, 0], [0])
    assert driven.begin() == [], "its former attempt has not ended"
    driven.core.ended(old, driven.now)
    assert driven.begin() == [0]


def test_a_failed_older_event_is_retried_while_later_ones_wait() -> None:
    driven = slow(2, backoff=1.0)
    driven.core.failed(driven.grants[0], driven.now)
    driven.pass_time(1.0)
    assert driven.begin() == [0]
    driven.finish(0)
    assert driven.commit() == [0, 1], "without rolling anything back"


def test_what_is_not_critical_commits_first_and_that_stays_on_record() -> None:
    driven = Driven(when_older_is_open=wait_and_commit(10))
    for name in "abc":
        driven.arrive(name, touches=key(name))
    driven.begin()
    driven.finish(1, 2)
    assert driven.commit() == []
    assert driven.pass_time(10)[1] == []
    assert driven.commit() == [1, 2]
    assert (driven.core.position, list(driven.core.done)) == (0, [(1, 3)])
    assert driven.core.counts.ahead == 2


def test_what_is_critical_is_rolled_back_and_runs_after_the_older_one() -> None:
    driven = Driven(when_older_is_open=wait_and_commit(10))
    for name, touched in (("a", "k"), ("b", "k"), ("c", "other")):
        driven.arrive(name, touches=key(touched))
    driven.begin()
    driven.finish(1, 2)
    driven.commit()
    assert driven.pass_time(10)[1] == [1]
    assert driven.commit() == [2]
    assert driven.begin() == []
    driven.finish(0)
    assert driven.commit() == [0]
    assert driven.begin() == [1]


def test_critical_is_decided_pair_by_pair_and_transitively() -> None:
    asked = []

    def critical(older: OpenEvent, later: OpenEvent) -> bool:
        asked.append((older.offset, later.offset))
        return later.offset == older.offset + 2

    driven = slow(6, when_older_is_open=wait_and_commit(10, critical))
    assert driven.pass_time(10)[1] == [4, 2], "4 is critical only to 2, which is to 0"
    assert driven.commit() == [1, 3, 5]
    assert (2, 4) in asked
    assert (1, 2) not in asked, "1 commits: nothing has to stay behind it"


def test_a_test_of_the_users_that_fails_means_critical() -> None:
    def critical(older: OpenEvent, later: OpenEvent) -> bool:
        raise KeyError(later)

    driven = slow(2, when_older_is_open=wait_and_commit(10, critical))
    assert driven.pass_time(10)[1] == [1]


def test_a_test_of_the_users_is_asked_little_at_a_time_however_many_events_wait() -> None:
    asked = 0

    def critical(older: OpenEvent, later: OpenEvent) -> bool:
        nonlocal asked
        asked += 1
        return older.offset == 0 and later.offset % 200 == 0

    driven = slow(10_000, when_older_is_open=wait_and_commit(10, critical))
    back, most, committed = 0, 0, list[int]()
    driven.pass_time(9.95)
    for _ in range(200):
        before = asked
        back += len(driven.pass_time(0.05)[1])
        most = max(most, asked - before)
        committed += driven.commit()
    assert most <= 20_100, "one look keeps the loop for some milliseconds"
    assert asked <= 100 * 10_000
    assert back == 49
    assert committed == [offset for offset in range(10_000) if offset % 200]


def test_behind_a_hundred_events_that_stay_the_later_ones_count_as_critical() -> None:
    def critical(older: OpenEvent, later: OpenEvent) -> bool:
        return older.offset == 0 and later.offset <= 100

    driven = slow(200, when_older_is_open=wait_and_commit(10, critical))
    assert len(driven.pass_time(10)[1]) == 199
    assert driven.commit() == []


def test_two_that_only_read_a_key_are_not_critical() -> None:
    driven = Driven(when_older_is_open=wait_and_commit(10))
    for name in "abc":
        driven.arrive(name, touches=Touched.of([], reads=[("keys", "k")]))
    driven.arrive("d", touches=key("k"))
    driven.begin()
    driven.finish(1, 2, 3)
    driven.commit()
    assert driven.pass_time(10)[1] == [3], "it writes what 0 reads"
    assert driven.commit() == [1, 2]


def test_unknown_means_critical() -> None:
    driven = slow(3, when_older_is_open=wait_and_commit(10))
    assert driven.pass_time(10)[1] == [2, 1]


def test_what_a_kind_touches_is_learned_without_executing_the_older_one() -> None:
    driven = Driven(when_older_is_open=wait_and_commit(10))
    for number in range(RUNS):
        driven.arrive(f"s{number}")
        driven.begin()
        driven.finish(number, touched=Touched.of([("orders", f"s{number}")]))
        driven.commit()
    driven.arrive("slow", "x", "y")
    driven.begin()
    driven.finish(RUNS + 1, touched=Touched.of([("orders", "x")]))
    driven.finish(RUNS + 2, touched=Touched.of([("orders", "slow")]))
    driven.commit()
    assert driven.pass_time(10)[1] == [RUNS + 2]
    assert driven.commit() == [RUNS + 1]


def test_events_of_a_stream_never_overtake_each_other() -> None:
    driven = Driven(
        when_older_is_open=wait_and_commit(10, lambda older, later: False), within_stream="parallel"
    )
    driven.arrive("a", "a", "b")
    driven.begin()
    driven.finish(1, 2)
    driven.commit()
    assert driven.pass_time(10)[1] == [1]
    assert driven.commit() == [2]


def test_rolling_back_cascades_to_what_read_staged_state() -> None:
    driven = Driven(when_older_is_open=wait_and_commit(10))
    driven.arrive("slow", touches=key("k"))
    driven.arrive("a", touches=key("k"))
    driven.arrive("a", "a", touches=key("other"))
    driven.arrive("b", touches=key("its own"))
    assert driven.begin() == [0, 1, 4]
    driven.finish(1)
    driven.begin()
    driven.finish(2, 4)
    driven.begin()
    driven.commit()
    assert driven.pass_time(10)[1:] == ([3, 2, 1], [3]), "3 runs on the staged state of 2"
    assert driven.core.counts.cascaded == 1
    assert driven.commit() == [4]


def test_after_three_rollbacks_of_an_event_the_error_policy_decides() -> None:
    driven = Driven(when_older_is_open=wait_and_roll_back(10))
    for times in range(3):
        driven.arrive(f"slow{times}")
    driven.arrive("victim")
    for older in range(3):
        driven.begin()
        assert not driven.grants[3].settle
        driven.finish(*range(older + 1, 4))
        driven.commit()
        driven.pass_time(10)
        driven.finish(older)
        assert driven.commit() == [older]
    driven.begin()
    assert driven.grants[3].settle
    assert driven.core.counts.unsettled > 0
    driven.finish(3)
    assert driven.commit() == [3]


def test_over_its_time_limit_an_event_is_rolled_back_to_its_old_place() -> None:
    driven = Driven(time_limit=30)
    driven.arrive("a", "a", "b")
    driven.begin()
    late = driven.grants[0]
    driven.now = 29.0
    driven.finish(2)
    assert driven.pass_time(0.9)[1] == []
    assert driven.pass_time(0.1) == ([], [0], [0])
    assert driven.core.counts.timed_out == 1
    driven.core.ended(late, driven.now)
    assert driven.begin() == [0], "before 1"
    driven.finish(0)
    assert driven.begin() == [1]
    driven.finish(1)
    assert driven.commit() == [0, 1, 2]


def test_the_time_limit_counts_as_a_rollback_and_not_for_the_error_policys_decision() -> None:
    driven = Driven(time_limit=30, rollbacks=1)
    driven.arrive("a")
    driven.begin()
    driven.pass_time(30)
    driven.core.ended(driven.grants[0], driven.now)
    driven.begin()
    assert driven.grants[0].settle
    assert driven.pass_time(100) == ([], [], [])


@pytest.mark.parametrize("wait", [10, 20])
def test_a_new_oldest_event_is_waited_for_anew(wait: int) -> None:
    driven = slow(3, when_older_is_open=wait_and_roll_back(wait))
    driven.arrive("late")
    driven.pass_time(wait - 1)
    driven.begin()
    driven.finish(0)
    assert driven.commit() == [0, 1, 2]
    driven.arrive("later")
    driven.begin()
    driven.finish(4)
    assert driven.pass_time(wait - 1)[1] == []
    assert driven.pass_time(1)[1] == [4]
