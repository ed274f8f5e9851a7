"""Every record exactly once: replays, duplicates, crashes, checkpoints."""

from typing import Any

import pytest

from stores.sinks import Applied, Batch, OutputRecord, Position, StoreError
from stores.sinks.contract.crashes import CrashingStore
from stores.sinks.contract.example_records import ORDERS, TOPIC, delete, order, upsert, value
from stores.sinks.contract.store import Crash


class OnceContract(CrashingStore):
    def test_a_replayed_batch_changes_nothing(self) -> None:
        batch = [order(0, 1, state="new"), order(1, 2, state="paid")]
        self.apply(*batch)
        self.apply(order(2, 3, state="sent"))
        done = self.apply(*batch)
        assert (done.replayed, done.applied, done.upserts) == (2, 0, 0)
        assert self.rows("orders") == {(1,): {"state": "sent"}}

    def test_a_replay_that_overlaps_applies_what_is_new(self) -> None:
        records = [order(at, at + 1, state=f"s{at}") for at in range(6)]
        self.apply(*records[:4])
        done = self.apply(*records[2:])
        assert (done.replayed, done.applied) == (2, 2)
        assert self.rows("orders") == {(1,): {"state": "s5"}}

    def test_a_record_that_comes_twice_in_a_batch_is_applied_once(self) -> None:
        done = self.apply(order(0, 1, state="new"), order(0, 1, state="new"))
        assert (done.applied, done.replayed) == (1, 1)

    def test_a_duplicate_at_a_later_offset_is_fenced(self) -> None:
        self.apply(order(0, 1, state="new"), order(1, 2, state="paid"))
        done = self.apply(order(2, 1, state="new"), order(3, 2, state="paid"))
        assert (done.duplicates, done.applied) == (2, 0)
        together = self.apply(order(4, 3, state="sent"), order(5, 2, state="paid"))
        assert (together.duplicates, together.applied) == (1, 1)
        assert self.rows("orders") == {(1,): {"state": "sent"}}

    def test_a_duplicate_does_not_bring_a_deleted_row_back(self) -> None:
        self.apply(order(0, 1, state="new"))
        self.apply((TOPIC, 0, 1, value("a", 2, delete("orders", {"id": 1}))))
        self.apply(order(2, 1, state="new"))
        self.apply(order(0, 1, state="new"))
        assert self.rows("orders") == {}

    def test_views_topics_and_streams_are_fenced_apart(self) -> None:
        row = {"id": 1}
        done = self.apply(
            order(0, 7, state="a"),
            (TOPIC, 0, 1, value("b", 7, upsert("orders", row, state="b"))),
            (TOPIC, 0, 2, value("a", 7, upsert("orders", row, state="c"), view="other")),
            ("cafe.orders", 0, 0, value("a", 7, upsert("orders", row, state="d"))),
            (TOPIC, 0, 3, value("a\0b", 7, upsert("orders", row, total=1.0))),
            (TOPIC, 0, 4, value("a\0c", 7, upsert("orders", row, total=2.0))),
        )
        assert (done.applied, done.duplicates) == (6, 0)
        assert self.apply((TOPIC, 0, 9, value("a\0b", 7))).duplicates == 1

    @pytest.mark.parametrize("sequence", [0, -5, 2**63 - 1, -(2**63)])
    def test_any_sequence_of_64_bits_is_fenced(self, sequence: int) -> None:
        assert self.apply(order(0, sequence, state="new")).applied == 1
        assert self.apply(order(1, sequence, state="again")).duplicates == 1

    def test_many_streams_are_fenced(self) -> None:
        def records(first: int) -> list[OutputRecord]:
            changes = [upsert("orders", {"id": n}, state="new") for n in range(1234)]
            return [(TOPIC, 0, first + n, value(f"s{n}", 1, changes[n])) for n in range(1234)]

        assert self.apply(*records(0)).applied == 1234
        assert self.apply(*records(5000)).duplicates == 1234

    @pytest.mark.parametrize("which", ["before", "after"])
    def test_a_crash_at_any_step_leaves_all_as_it_was(
        self, which: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.crash_at_any_step(which, monkeypatch)

    def test_a_batch_that_was_cut_off_may_come_again_in_other_batches(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def note(offset: int, sequence: int, **values: Any) -> OutputRecord:
            return TOPIC, 0, offset, value("b", sequence, upsert("remarks", {"id": 1}, **values))

        gone = value("a", 4, delete("orders", {"id": 1}))
        records = [
            order(0, 1, state="new", total=1.0),
            note(1, 1, text="one"),
            order(2, 2, state="paid"),
            (TOPIC, 0, 3, b"dead"),
            note(4, 2, more="two"),
            order(5, 3, paid=True),
            (TOPIC, 0, 6, gone),
            order(7, 5, state="again"),
            note(8, 3, text="three"),
        ]
        for step in self.crash_points(self.cut_off_at or self.steps[:-1]):
            self.forget()
            cuts = [(0, 2), (2, 9), (2, 3), (3, 6), (6, 9)]
            for first, end in cuts:
                with monkeypatch.context() as patch, self.open([ORDERS]) as sink:
                    if (first, end) == (2, 9):
                        self.crash(patch, sink, step, "after")
                        with pytest.raises(Crash):
                            sink.apply(records[first:end])
                    else:
                        sink.apply(records[first:end])
            assert self.rows("orders") == {(1,): {"state": "again"}}, step
            assert self.rows("remarks") == {(1,): {"text": "three", "more": "two"}}, step
            assert [row[2] for row in self.dead()] == [3], step
            with self.open([ORDERS]) as sink:
                assert sink.progress() == [Position(TOPIC, 0, 9, applied=8, dead=1)], step

    def test_progress_says_where_records_ended(self) -> None:
        self.apply(order(0, 1), order(1, 2), (TOPIC, 2, 7, b"dead"), order(5, 2), order(1, 2))
        self.apply(order(1, 2))
        with self.open() as sink:
            assert sink.progress() == [
                Position(TOPIC, 0, 6, applied=2, duplicates=1),
                Position(TOPIC, 2, 8, dead=1),
            ]

    def test_an_empty_batch_is_recorded(self) -> None:
        with self.open() as sink:
            assert sink.last_batch("query") is None
            assert sink.apply([], Batch("query", 0)) == Applied()
            assert sink.last_batch("query") == 0
            assert sink.apply([order(0, 1)], Batch("query", 1)).applied == 1

    def test_a_checkpoint_that_is_ahead_is_refused(self) -> None:
        with self.open() as sink:
            with pytest.raises(StoreError, match="ahead of the read store"):
                sink.apply([order(0, 1)], Batch("query", 1))
            assert sink.progress() == []
            sink.apply([order(0, 1)], Batch("query", 0))
            sink.apply([order(0, 1)], Batch("query", 0))
            sink.apply([order(1, 2)], Batch("query", 1))
            with pytest.raises(StoreError, match="Delete the checkpoint"):
                sink.apply([order(3, 4)], Batch("query", 3))
            assert sink.apply([order(2, 3)], Batch("another", 0)).applied == 1

    def test_one_that_wakes_up_behind_its_successor_holds_it_up_in_nothing(self) -> None:
        with self.open() as sink:
            for number in range(3):
                sink.apply([order(number, number + 1)], Batch("query", number))
        with self.open() as sink:
            assert sink.apply([order(0, 1)], Batch("query", 0)).replayed == 1
            sink.apply([], Batch("query", 1))
            assert sink.last_batch("query") == 2
            assert sink.apply([order(3, 4)], Batch("query", 3)).applied == 1

    def test_one_of_two_that_go_on_with_a_checkpoint_is_told_of_the_other(self) -> None:
        with self.open() as frozen, self.open() as live:
            frozen.apply([order(0, 1)], Batch("query", 0))
            for number in (1, 2):
                live.apply([order(number, number + 1)], Batch("query", number))
            with pytest.raises(StoreError, match="another process has gone on"):
                frozen.apply([order(1, 2)], Batch("query", 1))
            assert live.apply([order(3, 4)], Batch("query", 3)).applied == 1

    def test_a_checkpoint_that_was_restored_counts_on_from_where_it_is(self) -> None:
        with self.open() as sink:
            for number in range(5):
                sink.apply([order(number, number + 1)], Batch("query", number))
            assert sink.apply([order(4, 5), order(5, 6)], Batch("query", 2)).applied == 1
            assert sink.last_batch("query") == 2
            with pytest.raises(StoreError, match="ahead of the read store"):
                sink.apply([order(6, 7)], Batch("query", 4))

    def test_a_topic_that_was_made_again_is_refused_rather_than_passed(self) -> None:
        self.apply(*(order(at, at + 1) for at in range(5)), (TOPIC, 0, 5, b"dead"))
        with pytest.raises(StoreError, match="made again"):
            self.apply(order(0, 6, state="lost otherwise"))
        assert self.rows("orders") == {(1,): {}}

    def test_a_dead_record_may_be_replayed_ahead_of_its_stream(self) -> None:
        dead = (TOPIC, 0, 1, value("a", 2, upsert("orders", {"id": "no number"})))
        self.apply(order(0, 1), dead)
        assert self.apply(order(0, 1), dead).replayed == 2
        assert self.apply(dead).replayed == 1
