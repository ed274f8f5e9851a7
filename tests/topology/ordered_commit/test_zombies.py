"""Attempts that outlive their grant: their effects are dropped, and nothing runs beside them."""

import itertools

from tests.topology.ordered_commit.driven import Driven
from topology.ordered_commit import CommitRules, FailureOutcome, OffsetRanges, OrderedCommit

RULES = CommitRules(order="arrival")


def test_effects_under_an_old_number_are_dropped() -> None:
    driven = Driven(time_limit=30)
    driven.arrive("a")
    driven.begin()
    old = driven.grants[0]
    driven.pass_time(30)
    assert not driven.core.finished(old, None, 1, driven.now)
    assert driven.begin() == [0], "the old attempt has ended with that"
    assert driven.grants[0].number > old.number
    assert not driven.core.finished(old, None, 1, driven.now)
    assert driven.core.failed(old, driven.now) is FailureOutcome.OLD
    assert driven.core.counts.old == 3
    driven.finish(0)
    assert driven.commit() == [0]


def test_a_streams_new_run_waits_for_the_old_ones_end() -> None:
    driven = Driven(time_limit=30)
    driven.arrive("a", None, "b")
    driven.begin()
    old = dict(driven.grants)
    driven.pass_time(30)
    assert driven.begin() == []
    driven.core.ended(old[1], driven.now)
    assert driven.begin() == [1], "a message without a key waits for itself only"
    driven.core.ended(old[0], driven.now)
    assert driven.begin() == [0]


def test_after_revocation_all_open_grants_are_old() -> None:
    driven = Driven()
    driven.arrive("a", "b", "c")
    driven.begin(2)
    driven.finish(1)
    grants = driven.grants
    assert [grant.offset for grant in driven.core.revoke()] == [1, 0]
    assert driven.core.still_running == (grants[0],)
    assert driven.begin() == []
    assert not driven.core.finished(grants[0], None, 1, 0.0)
    assert driven.core.take_commits(0.0) == []
    assert not driven.core.poll(1e9)


def test_what_is_read_after_revocation_is_for_who_has_the_partition_next() -> None:
    driven = Driven()
    driven.core.revoke()
    assert not driven.core.arrive(0, "a", "kind", 1, 0.0)
    driven.core.reached(1)
    assert driven.core.lost(1, 9) == 0
    assert driven.core.progress() == (0, OffsetRanges())
    assert driven.core.position == 0


def test_a_partition_that_comes_back_waits_for_the_attempts_of_its_earlier_run() -> None:
    numbers = itertools.count(1)
    before = OrderedCommit(RULES, numbers=numbers)
    for offset, stream in enumerate(("a", None)):
        before.arrive(offset, stream, "kind", 1, 0.0)
    zombies = [before.next(0.0), before.next(0.0)]
    before.revoke()
    core = OrderedCommit(RULES, numbers=numbers, still_running=before.still_running)
    for offset, stream in enumerate(("a", None, "b")):
        core.arrive(offset, stream, "kind", 1, 0.0)
    first = core.next(0.0)
    assert first is not None
    assert first.offset == 2
    assert core.next(0.0) is None
    for zombie in zombies:
        assert zombie is not None
        assert zombie.number < first.number
        assert not core.finished(zombie, None, 1, 0.0)
    begun = [core.next(0.0), core.next(0.0)]
    assert [grant.offset for grant in begun if grant is not None] == [0, 1]
