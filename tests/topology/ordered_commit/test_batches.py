"""A grant may be a batch: of one stream or of many, never two of one group side by side."""

import pytest

from tests.topology.ordered_commit.driven import Driven
from topology.model.errors import DeclarationError
from topology.ordered_commit import CommitRules, wait_and_roll_back


def offsets(driven: Driven) -> list[list[int]]:
    driven.begin()
    grants = dict.fromkeys(driven.grants.values())
    return [[event.offset for event in grant.events] for grant in grants]


def test_a_batch_of_one_stream_takes_its_events_in_order() -> None:
    driven = Driven(order="stream", batch=3)
    driven.arrive("a", "b", "a", "a", "a", "b", None, None)
    assert offsets(driven) == [[0, 2, 3], [1, 5], [6], [7]]


def test_a_batch_of_many_streams_takes_what_may_begin() -> None:
    driven = Driven(order="stream", batch=4, batch_of="any")
    driven.arrive("a", "b", "a", None, "c", "a")
    assert offsets(driven) == [[0, 1, 2, 3], [4]], "5 waits for the batch that has 0 and 2"


def test_events_of_one_group_in_one_fetch_are_never_handled_side_by_side() -> None:
    for order in ("arrival", "stream"):
        for batch_of in ("stream", "any"):
            driven = Driven(order=order, batch=2, batch_of=batch_of)
            driven.arrive(*"aabbaabcab" * 20)
            done = 0
            while done < 200:
                driven.begin()
                running = list(driven.core._attempts.running.values())
                streams = [{event.stream for event in grant.events} for grant in running]
                assert sum(map(len, streams)) == len(set().union(*streams))
                driven.finish(running[-1].offset)
                done += len(driven.commit())


def test_in_the_order_of_arrival_a_batch_is_of_neighbours() -> None:
    driven = Driven(batch=3, batch_of="any")
    driven.arrive("a", "b", "a", "c", "b")
    assert offsets(driven) == [[0, 1, 2], [3]]
    driven.finish(3)
    assert driven.commit() == []
    driven.finish(0)
    assert driven.commit() == [0, 1, 2, 3]


def test_a_batch_commits_when_it_is_the_turn_of_all_its_events() -> None:
    driven = Driven(order="stream", batch=2, batch_of="any")
    driven.arrive("a", "b", "b", "c")
    assert offsets(driven) == [[0, 1], [3]]
    driven.finish(0, 3)
    assert driven.commit() == [0, 1, 3]


def test_the_events_of_a_failed_batch_are_tried_one_by_one() -> None:
    driven = Driven(order="stream", batch=3, backoff=0)
    driven.arrive("a", "a", "a", "a")
    driven.begin()
    driven.core.failed(driven.grants[0], 0.0)
    driven.pass_time(0)
    assert driven.begin() == [0]
    assert len(driven.grants[0].events) == 1
    driven.finish(0)
    assert driven.begin() == [1]


def test_a_batch_is_rolled_back_whole() -> None:
    driven = Driven(batch=2, batch_of="any", when_older_is_open=wait_and_roll_back(10))
    driven.arrive("a", "a", "b", "c")
    driven.begin()
    driven.finish(2)
    driven.commit()
    driven.pass_time(0)
    assert driven.pass_time(10)[1] == [2]
    driven.finish(0)
    assert driven.commit() == [0, 1]
    assert driven.begin() == [2, 3]


def test_the_time_limit_of_a_batch_is_that_of_its_events_together() -> None:
    driven = Driven(order="stream", batch=2, time_limit=30)
    driven.arrive("a", "a")
    driven.begin()
    assert driven.pass_time(59)[1] == []
    assert driven.pass_time(1)[1] == [0]


def test_batches_and_streams_that_run_side_by_side_exclude_each_other() -> None:
    with pytest.raises(DeclarationError, match="within_stream='parallel'"):
        CommitRules(batch=2, within_stream="parallel")
