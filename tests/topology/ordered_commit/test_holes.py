"""What is committed ahead stays on record, over gaps of the offsets, restarts and retention."""

from tests.topology.ordered_commit.driven import Driven
from topology.ordered_commit import CommitRules, OffsetRanges, OrderedCommit

STREAM = CommitRules(order="stream")


def run(core: OrderedCommit, *offsets: int) -> None:
    for offset in offsets:
        core.arrive(offset, str(offset), "kind", 1, 0.0)


def commit_only(core: OrderedCommit, *wanted: int) -> None:
    while (grant := core.next(0.0)) is not None:
        if grant.offset in wanted:
            core.finished(grant, None, 1, 0.0)
    core.take_commits(0.0)
    core.committed(0.0)


def test_offsets_have_gaps_and_neighbours_are_not_one_apart() -> None:
    core = OrderedCommit(STREAM)
    run(core, 3, 7, 20, 21)
    commit_only(core, 7, 20)
    assert (core.position, list(core.done)) == (3, [(7, 21)]), "one range: nothing lies between"


def test_a_range_grows_over_a_gap_that_is_known_of_later() -> None:
    core = OrderedCommit(STREAM)
    run(core, 3, 7)
    commit_only(core, 7)
    run(core, 20)
    commit_only(core, 20)
    assert list(core.done) == [(7, 21)]


def test_the_position_is_that_of_the_oldest_open_event() -> None:
    core = OrderedCommit(STREAM, position=2)
    assert core.position == 2
    run(core, 5, 9)
    assert core.position == 5
    commit_only(core, 9)
    assert core.position == 5


def test_with_nothing_open_the_position_is_behind_what_has_arrived_or_was_read_over() -> None:
    core = OrderedCommit(STREAM)
    run(core, 3, 7)
    commit_only(core, 3, 7)
    assert core.position == 8
    core.reached(11)
    assert core.position == 11
    assert not core.done


def test_progress_is_that_of_the_unit_before_it_is_durable() -> None:
    core = OrderedCommit(STREAM)
    run(core, 3, 7, 9)
    while (grant := core.next(0.0)) is not None:
        if grant.offset != 7:
            core.finished(grant, None, 1, 0.0)
    core.take_commits(0.0)
    run(core, 12)
    assert core.progress() == (7, OffsetRanges([(9, 12)]))
    assert (core.position, list(core.done)) == (3, [])
    core.committed(0.0)
    assert (core.position, list(core.done)) == (7, [(9, 12)])


def test_a_restart_leaves_out_what_is_done_beyond_the_position() -> None:
    core = OrderedCommit(STREAM, OffsetRanges([(5, 6), (9, 12)]), position=4)
    arrived = [core.arrive(offset, "a", "kind", 1, 0.0) for offset in (4, 5, 7, 9, 11, 12)]
    assert arrived == [True, False, True, False, False, True]
    assert core.counts.left_out == 3


def test_what_arrives_again_is_left_out() -> None:
    core = OrderedCommit(STREAM)
    run(core, 3, 7)
    assert not core.arrive(3, "a", "kind", 1, 0.0)
    assert core.in_hand == 2


def test_what_retention_eats_of_a_hole_is_counted() -> None:
    core = OrderedCommit(STREAM, OffsetRanges([(5, 8), (10, 20)]), position=2)
    assert core.lost(2, 12) == 3 + 2
    assert core.counts.lost == 5
    assert (core.position, list(core.done)) == (12, [(12, 20)])
    assert core.lost(2, 12) == 0, "once"


def test_what_is_in_hand_is_not_lost_with_the_log() -> None:
    core = OrderedCommit(STREAM)
    run(core, 3, 7)
    assert core.lost(0, 10) == 2, "8 and 9: they may have been events"
    assert core.position == 3
    commit_only(core, 3, 7)
    assert core.position == 10


def test_a_lasting_hole_costs_no_more_than_a_range() -> None:
    driven = Driven(order="stream")
    driven.arrive("slow")
    driven.begin()
    for number in range(1, 500):
        driven.arrive(str(number))
        driven.begin()
        driven.finish(number)
        driven.commit()
    assert list(driven.core.done) == [(1, 500)]
    assert driven.core.in_hand == 1
