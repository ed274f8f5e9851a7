"""The log knows what became of each sequence of a stream."""

import pytest

from stores.outbox.ranges import SequenceRange
from tests.contracts.message_log.base import OnEngine, places


class KnowsStreams(OnEngine):
    def test_the_last_sequence_of_a_stream(self) -> None:
        self.fill("aab")
        with self.db.connect() as connection:
            assert self.log.last(connection, "orders", "a") == 2
            assert self.log.last(connection, "orders", "none") == 0
            assert self.log.last(connection, "parcels", "a") == 0

    def test_sequences_are_kept_gone_void_or_ahead(self) -> None:
        self.fill("a" * 8)
        ids = [message.id for message in self.messages()]
        with self.db.begin() as connection:
            self.log.delete(connection, [ids[0], ids[1], ids[4]])
            assert self.log.declare_void(connection, "orders", "a", 4, 5, "spoilt") == 1
            assert self.log.known(connection, "orders", "a", 1, 12) == [
                SequenceRange(1, 2, "gone"),
                SequenceRange(3, 3, "kept"),
                SequenceRange(4, 5, "void"),
                SequenceRange(6, 8, "kept"),
                SequenceRange(9, 12, "ahead"),
            ]
            assert self.log.known(connection, "orders", "a", 7, 7) == [SequenceRange(7, 7, "kept")]
            assert self.log.known(connection, "orders", "b", 1, 2) == [SequenceRange(1, 2, "ahead")]
        assert places(self.messages()) == [("a", 3), ("a", 6), ("a", 7), ("a", 8)]

    def test_void_is_void_for_ever_and_may_be_said_twice(self) -> None:
        self.fill("aaa")
        with self.db.begin() as connection:
            assert self.log.declare_void(connection, "orders", "a", 1, 2, "spoilt") == 2
            assert self.log.declare_void(connection, "orders", "a", 1, 2, "again") == 0
            assert self.log.declare_void(connection, "orders", "a", 2, 3, "overlaps") == 1
            assert self.log.known(connection, "orders", "a", 1, 3) == [SequenceRange(1, 3, "void")]
        assert self.fill("a") == [4]
        assert places(self.messages()) == [("a", 4)]

    def test_what_no_message_had_yet_cannot_be_void(self) -> None:
        self.fill("a")
        with self.db.begin() as connection:
            for first, last in ((1, 2), (2, 2), (0, 1), (1, 0)):
                with pytest.raises(ValueError, match=r"it has 1 to 1"):
                    self.log.declare_void(connection, "orders", "a", first, last, "no")

    def test_a_range_has_a_limit(self) -> None:
        with self.db.connect() as connection:
            for first, last in ((0, 1), (2, 1), (1, 100_001)):
                with pytest.raises(ValueError, match="ask for 1 to 100000"):
                    self.log.known(connection, "orders", "a", first, last)
            assert len(self.log.known(connection, "orders", "a", 1, 100_000)) == 1
