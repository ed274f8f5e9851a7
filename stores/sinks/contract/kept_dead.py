"""Dead records do not grow for ever; what was removed stays counted and known."""

import logging
from typing import Any

import pytest

from stores.sinks import DeadCount, DeadLimit, OutputRecord, Position, StoreError
from stores.sinks.contract.example_records import ORDERS, TOPIC, order
from stores.sinks.contract.store import StoreUnderTest


def _bad(offset: int) -> OutputRecord:
    return TOPIC, 0, offset, b"bad %d" % offset


class KeptDeadContract(StoreUnderTest):
    def test_dead_records_do_not_grow_for_ever(self, caplog: pytest.LogCaptureFixture) -> None:
        batches: list[list[OutputRecord]]
        batches = [[_bad(0), _bad(1)], [_bad(2), order(3, 1, state="x"), _bad(4)]]
        with self.open([ORDERS]) as sink, caplog.at_level(logging.WARNING, "read store"):
            sink.keep_dead = DeadLimit(2)
            for batch in batches:
                sink.apply(batch)
            assert [each.offset for each in sorted(sink.last_dead(9))] == [2, 4]
            assert sink.dead_counts() == [DeadCount(TOPIC, 0, kept=2, removed=2)]
            # How many were dead is what it was.
            assert sink.progress() == [Position(TOPIC, 0, 5, applied=1, dead=4)]
        assert "dead records were removed from the table _dead" in caplog.text

    def test_a_record_that_was_dead_is_known_again_though_it_is_not_kept(self) -> None:
        batch = [_bad(0), order(1, 1, state="x"), _bad(2)]
        self.apply(*batch)
        with self.open([ORDERS]) as sink:
            assert sink.remove_dead() == 2
            assert sink.apply(batch).replayed == 3
        assert self.apply(*batch).replayed == 3
        other = order(2, 9, state="not what was there")
        with pytest.raises(StoreError, match="was deleted and made again"):
            self.apply(order(1, 9, state="nor here"), other)

    def test_dead_records_are_removed_by_topic_and_time_on_command(self) -> None:
        with self.open([ORDERS]) as sink:
            assert (sink.remove_dead(), sink.dead_counts(), sink.last_dead(5)) == (0, [], [])
            sink.apply([_bad(0), _bad(1), ("other", 0, 0, b"bad")])
            assert sink.remove_dead("other", before=1_000) == 0
            assert sink.remove_dead("other", dry_run=True) == 1
            assert len(sink.last_dead(9)) == 3
            assert sink.remove_dead("other") == 1
            assert sink.removals(9)[0].number == 1
            assert sink.remove_dead(before=1 << 40, by="ann", why="an 'odd' reason") == 2
            assert sink.dead_counts() == [
                DeadCount("other", 0, kept=0, removed=1),
                DeadCount(TOPIC, 0, kept=0, removed=2),
            ]
            # Counted once, however often it is asked for.
            assert sink.remove_dead() == 0
            removals = sorted((each[1:] for each in sink.removals(9)), key=str)
            assert removals == [("", "", "other", 1), ("ann", "an 'odd' reason", None, 2)]
            assert len(sink.removals(1)) == 1
            sink.apply([_bad(2)])
            (last,) = sink.last_dead(1)
            assert last[:5] == (TOPIC, 0, 2, last.reason, b"bad 2")
            assert last.at is not None

    def test_records_that_are_too_old_go_when_others_come(self) -> None:
        with self.open([ORDERS]) as sink:
            sink.apply([_bad(0)])
            sink.keep_dead = DeadLimit(days=-1)  # what was put aside up to tomorrow is too old
            sink.apply([_bad(1)])
            assert sink.dead_counts() == [DeadCount(TOPIC, 0, kept=0, removed=2)]

    def test_a_switch_takes_over_what_was_removed(self) -> None:
        records: list[Any] = [order(0, 1, state="x"), _bad(1), _bad(2)]
        with self.open([ORDERS]) as live, self.open([ORDERS], "next") as shadow:
            live.apply(records)
            shadow.apply([*records, (TOPIC, -1, 0, b"bad")])
            shadow.remove_dead()
            live.switch("next", [TOPIC])
            removed = [(topic, partition, gone) for topic, partition, _, gone in live.dead_counts()]
            assert removed == [(TOPIC, -1, 1), (TOPIC, 0, 2)]
            assert live.apply([*records, (TOPIC, -1, 0, b"bad")]).replayed >= 3
