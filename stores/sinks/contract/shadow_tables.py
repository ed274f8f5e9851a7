"""A shadow: tables beside the live ones, which take their place at one stroke."""

import pytest

from stores.sinks import Batch, OutputRecord, Position, StoreError
from stores.sinks.contract.example_records import ORDERS, TOPIC, order, upsert, value
from stores.sinks.contract.store import StoreUnderTest
from stores.sinks.errors import NoSuchTable
from topology.model.table import Table

OTHER = "cafe.orders"


class ShadowTablesContract(StoreUnderTest):
    def test_a_shadow_is_written_beside_the_live_tables(self) -> None:
        self.apply(order(0, 1, state="live"))
        with self.open([ORDERS], "next") as shadow:
            done = shadow.apply(
                [order(0, 1, state="shadow"), (TOPIC, 0, 1, b"dead")], Batch("q", 0)
            )
            assert (done.applied, done.dead) == (1, 1)
            assert list(shadow.rows("orders")) == [{"id": 1, "state": "shadow"}]
            assert (shadow.count("orders"), shadow.last_batch("q")) == (1, 0)
            assert shadow.progress() == [Position(TOPIC, 0, 2, applied=1, dead=1)]
        assert self.rows("orders") == {(1,): {"state": "live"}}
        with self.open([ORDERS]) as live:
            assert live.progress() == [Position(TOPIC, 0, 1, applied=1)]
            assert live.last_batch("q") is None
            assert live.shadows() == ["next"]
            assert live.apply([order(1, 2, total=1.5)]).applied == 1
        assert self.dead() == []

    def test_a_shadow_goes_on_where_it_was(self) -> None:
        for _ in range(2):
            with self.open([ORDERS], "next") as shadow:
                shadow.apply([order(0, 1, state="shadow")])
                assert shadow.progress() == [Position(TOPIC, 0, 1, applied=1)]

    def test_a_switch_puts_the_shadow_s_tables_in_the_place_of_the_live_ones(self) -> None:
        self.apply(
            order(0, 1, state="live", total=1.0),
            (TOPIC, 0, 1, value("a", 2, upsert("kept", {"id": 1}, x=1))),
        )
        self._fill("next", order(1, 2, state="shadow", extra=1))
        with self.open([ORDERS]) as live:
            live.switch("next", [TOPIC])
            assert live.shadows() == ["old"]
            assert list(live.rows("orders")) == [{"id": 1, "state": "shadow", "extra": 1}]
        assert self.rows("orders") == {(1,): {"state": "shadow", "extra": 1}}
        assert self.rows("kept") == {(1,): {"x": 1}}
        with self.open([ORDERS]) as live:
            live.drop("old")
            assert live.shadows() == []
            assert live.apply([order(2, 3, total=2.5)]).applied == 1
        assert self.rows("orders") == {(1,): {"state": "shadow", "extra": 1, "total": 2.5}}

    def test_after_a_switch_the_live_tables_go_on_and_take_nothing_twice(self) -> None:
        records = [order(at, at + 1, state=f"s{at}") for at in range(4)]
        dead = TOPIC, 0, 2, value("a", 3, upsert("orders", {"id": "x"}))
        with self.open([ORDERS]) as live:
            live.apply(records[:2])
            self._fill("next", records[0], records[1], dead, records[3])
            live.switch("next", [TOPIC])
            assert live.progress() == [Position(TOPIC, 0, 2, applied=2)]
            done = live.apply([*records[:2], dead, records[3], order(4, 5, total=1.0)])
            assert (done.replayed, done.duplicates, done.applied) == (2, 2, 1)
        assert self.rows("orders") == {(1,): {"state": "s3", "total": 1.0}}
        assert [row[:3] for row in self.dead()] == [(TOPIC, 0, 2)]
        # Nor from the start, when the checkpoint is lost.
        assert self.apply(*records[:2], dead, records[3]).replayed == 4

    def test_a_shadow_that_is_behind_is_not_switched_to(self) -> None:
        self.apply(order(0, 1), order(1, 2), (TOPIC, 1, 0, value("b", 1)))
        self._fill("next", order(0, 1, state="shadow"), (TOPIC, 1, 0, value("b", 1)))
        with self.open([ORDERS]) as live:
            with pytest.raises(StoreError, match=r"not caught up.*offset 1 there, and at 2"):
                live.switch("next", [TOPIC])
            assert live.shadows() == ["next"]
            self._fill("next", order(1, 2))
            live.switch("next", [TOPIC])
        assert self.rows("orders") == {(1,): {"state": "shadow"}}

    def test_a_stream_that_is_behind_is_told(self) -> None:
        self.apply(order(0, 7, state="live"))
        self._fill("next", order(0, 6, state="shadow"))
        with (
            self.open([ORDERS]) as live,
            pytest.raises(StoreError, match="stream 'a' is at sequence 6 there, and at 7"),
        ):
            live.switch("next", [TOPIC])
        assert self.rows("orders") == {(1,): {"state": "live"}}

    def test_a_shadow_may_be_filled_from_elsewhere_and_follow_on(self) -> None:
        self.apply(order(40, 1), order(41, 2, state="live"))
        with self.open([ORDERS], "next") as shadow:
            shadow.apply(
                [(TOPIC, 900, 0, value("a", 2, upsert("orders", {"id": 1}, state="made")))]
            )
            shadow.seek([Position(TOPIC, 0, 45)])
            assert shadow.progress() == [Position(TOPIC, 0, 45)]
            assert shadow.apply([order(44, 2), order(45, 3, total=1.0)]).replayed == 1
        with self.open([ORDERS]) as live:
            live.switch("next", [TOPIC])
        assert self.rows("orders") == {(1,): {"state": "made", "total": 1.0}}

    def test_a_shadow_has_to_be_switched_with_all_its_topics(self) -> None:
        self._fill("next", order(0, 1), (OTHER, 0, 0, value("b", 1)))
        with self.open([ORDERS]) as live:
            with pytest.raises(StoreError, match=OTHER):
                live.switch("next", [TOPIC])
            live.switch("next", [TOPIC, OTHER])
            assert live.apply([(OTHER, 0, 0, value("b", 1))]).duplicates == 1

    def test_a_topic_that_the_shadow_has_nothing_of_stays_as_it_is(self) -> None:
        self.apply((OTHER, 0, 0, value("b", 4)))
        self._fill("next", order(0, 1))
        with self.open([ORDERS]) as live:
            live.switch("next", [TOPIC])
            assert live.apply([(OTHER, 0, 1, value("b", 4))]).duplicates == 1

    def test_the_epoch_of_a_stream_outlives_a_switch(self) -> None:
        again = TOPIC, 0, 1, value("a", 1, upsert("orders", {"id": 1}, state="again"), epoch=1)
        later = TOPIC, 0, 2, value("a", 2, upsert("orders", {"id": 1}, state="later"), epoch=1)
        self.apply(order(0, 2), again)
        with self.open([ORDERS], "next") as shadow:
            shadow.apply([(TOPIC, 7, 0, value("a", 2, upsert("orders", {"id": 1}, state="later")))])
            shadow.seek([Position(TOPIC, 0, 2)])
        with self.open([ORDERS]) as live:
            live.switch("next", [TOPIC])
            assert live.apply([again, later]).duplicates == 1
        assert self.rows("orders") == {(1,): {"state": "later"}}

    def test_the_old_tables_are_kept_until_they_are_dropped(self) -> None:
        self.apply(order(0, 1))
        self._fill("next", order(0, 1))
        with self.open([ORDERS]) as live:
            live.switch("next", [TOPIC])
        self._fill("other", order(0, 1, state="other"))
        with self.open([ORDERS]) as live:
            with pytest.raises(StoreError, match="drop the shadow tables 'old'"):
                live.switch("other", [TOPIC])
            assert live.shadows() == ["old", "other"]
            live.drop("old")
            live.switch("other", [TOPIC])
        assert self.rows("orders") == {(1,): {"state": "other"}}

    def test_a_dropped_shadow_is_gone_and_may_be_begun_again(self) -> None:
        self._fill("next", order(0, 1, state="first"), (TOPIC, 0, 1, b"dead"))
        with self.open([ORDERS]) as live:
            live.drop("next")
            live.drop("next")
            assert live.shadows() == []
            with pytest.raises(StoreError, match="'next' are not there"):
                live.switch("next", [TOPIC])
        with self.open([ORDERS], "next") as shadow:
            assert (shadow.count("orders"), shadow.progress()) == (0, [])

    def test_a_table_that_only_the_shadow_has_becomes_live(self) -> None:
        self.apply(order(0, 1))
        made = value("a", 1, upsert("made", {"id": 1}, x=1))
        with self.open([], "next") as shadow:
            shadow.apply([(TOPIC, 0, 0, made)])
        with self.open([ORDERS]) as live:
            live.switch("next", [TOPIC])
            assert live.shadows() == []
            assert list(live.rows("made")) == [{"id": 1, "x": 1}]

    def test_tables_of_a_shadow_are_no_tables_of_another_one(self) -> None:
        # A table of that name is refused, or is another one.
        self._fill("next", order(0, 1, state="shadow"))
        with self.open() as live:
            done = live.apply([(TOPIC, 0, 0, value("b", 1, upsert("orders__next", {"id": 9})))])
            assert done.applied + done.dead == 1
            with pytest.raises(NoSuchTable, match="no such table"):
                live.count("orders")
            done = live.apply([(TOPIC, 0, 1, value("b", 2, upsert("notes__next", {"id": 1})))])
            assert done.applied == 1
        with self.open([], "next") as shadow:
            done = shadow.apply([(TOPIC, 0, 1, value("b", 1, upsert("notes", {"id": 2})))])
            assert done.applied + done.dead == 1
            assert list(shadow.rows("orders")) == [{"id": 1, "state": "shadow"}]
        with self.open() as live:
            assert list(live.rows("notes__next")) == [{"id": 1}]
            live.drop("next")
            assert list(live.rows("notes__next")) == [{"id": 1}]

    @pytest.mark.parametrize("name", ["", "old", "Next", "a-b", "1", "x" * 21, 'q"', "ä"])
    def test_a_shadow_s_name_is_checked(self, name: str) -> None:
        with pytest.raises(StoreError, match="shadow"):
            self.open([ORDERS], name)

    def test_a_name_that_leaves_no_room_for_the_shadow_s_is_refused(self) -> None:
        long = Table("t" * 55, {"id": int}, {})
        with pytest.raises(StoreError, match="longer than"):
            self.open([long], "a_longer_name")
        self.open([long], "b").close()

    def test_a_shadow_is_no_place_to_switch_to(self) -> None:
        with self.open([ORDERS], "next") as shadow, pytest.raises(StoreError, match="live sink"):
            shadow.switch("other", [TOPIC])

    def test_rows_come_in_key_order(self) -> None:
        table = Table("t", {"name": str, "flag": bool, "n": int}, {"x": float})
        keys = [("B", True, 2), ("a", False, 1), ("a", True, -1), ("a", True, 10), ("ä", True, 0)]
        changes = [
            upsert("t", {"name": name, "flag": flag, "n": n}, x=n / 2, y=None)
            for name, flag, n in reversed(keys)
        ]
        with self.open([table]) as sink:
            sink.apply([(TOPIC, 0, 0, value("a", 1, *changes))])
            assert list(sink.rows("t")) == [
                {"name": name, "flag": flag, "n": n, "x": n / 2} for name, flag, n in keys
            ]
            assert sink.count("t") == len(keys)
            with pytest.raises(NoSuchTable, match=r"'none'.*no such table"):
                list(sink.rows("none"))

    def _fill(self, name: str, *records: OutputRecord) -> None:
        with self.open([ORDERS], name) as shadow:
            shadow.apply(records)
