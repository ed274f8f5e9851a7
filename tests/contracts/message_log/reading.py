"""Messages are read by id, page by page, and deleted when they are acknowledged."""

import pytest
from sqlalchemy import text

from stores.outbox.message import START, Page, Position
from tests.contracts.message_log.base import OnEngine, places, read_on


class Reads(OnEngine):
    @pytest.mark.parametrize("limit", [1, 2, 7, 1000])
    def test_all_is_read_once_by_id(self, limit: int) -> None:
        self.fill("abcab")
        self.fill("ca")
        found = self.messages(limit)
        assert [m.id for m in found] == sorted({m.id for m in found})
        assert places(found) == [
            ("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 2), ("c", 2), ("a", 3),
        ]  # fmt: skip

    def test_a_reader_that_was_at_the_end_reads_what_comes(self) -> None:
        self.fill("ab")
        with self.db.connect() as connection:
            page = self.log.read_after(connection)
            assert len(page.messages) == 2
            connection.rollback()
            for _ in range(3):
                assert self.log.read_after(connection, page.position) == Page((), page.position)
            connection.rollback()
            self.fill("c")
            page = self.log.read_after(connection, page.position)
            assert places(page.messages) == [("c", 1)]

    def test_an_empty_log_is_read(self) -> None:
        with self.db.connect() as connection:
            assert self.log.read_after(connection) == Page((), START)
            with pytest.raises(ValueError, match="at least one"):
                self.log.read_after(connection, START, 0)

    def test_a_position_is_kept_as_text(self) -> None:
        self.fill("ab")
        with self.db.connect() as connection:
            position = self.log.read_after(connection, limit=1).position
            again = Position.loads(position.dumps())
            assert again == position
            assert places(self.log.read_after(connection, again).messages) == [("b", 1)]

    def test_what_is_acknowledged_is_deleted_and_nothing_else(self) -> None:
        self.fill("abab")
        with self.db.begin() as connection:
            first = self.log.read_after(connection, limit=3)
            assert self.log.acknowledge(connection, first) == 3
            assert self.log.acknowledge(connection, first) == 0
            assert self.log.acknowledge(connection, Page((), first.position)) == 0
            assert places(read_on(self.log, connection)) == [("b", 2)]
        assert self.fill("aab") == [3, 4, 3]  # numbers go on

    def test_an_acknowledgement_is_part_of_its_transaction(self) -> None:
        self.fill("ab")
        with self.db.connect() as connection:
            self.log.acknowledge(connection, self.log.read_after(connection))
            connection.rollback()
        assert len(self.messages()) == 2

    def test_ids_are_not_used_again(self) -> None:
        self.fill("ab")
        before = self.messages()
        with self.db.begin() as connection:
            self.log.delete(connection, [message.id for message in before])
        self.fill("a")
        assert self.messages()[0].id > before[-1].id

    def test_many_are_deleted_by_id(self) -> None:
        self.fill(f"s{number % 5}" for number in range(2300))
        ids = [message.id for message in self.messages()]
        with self.db.begin() as connection:
            assert self.log.delete(connection, ids[::2]) == 1150
        assert [message.id for message in self.messages()] == ids[1::2]

    def test_messages_are_read_again_as_they_are_now(self) -> None:
        self.fill("abcd")
        ids = [message.id for message in self.messages()]
        with self.db.begin() as connection:
            self.log.declare_void(connection, "orders", "b", 1, 1, "spoilt")
            assert places(self.log.read_ids(connection, ids[:3])) == [("a", 1), ("c", 1)]
            assert self.log.read_ids(connection, []) == ()

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ("sequence = 0", "its sequence is no number from 1 on"),
            ("sequence = -7", "its sequence is no number from 1 on"),
            ("captured_at = -1.0", "its time of capture is none"),
            ("stream = ''", "its stream is empty"),
        ],
    )
    def test_a_row_that_is_no_message_says_so(self, change: str, says: str) -> None:
        self.fill("aa")
        schema = f'"{self.log.schema}".' if self.log.schema else ""
        table = f"{schema}sequitur_messages"
        with self.db.begin() as connection:
            connection.execute(text(f"UPDATE {table} SET {change} WHERE sequence = 2"))
        good, bad = self.messages()
        assert good.damage is None
        assert says in (bad.damage or "")

    def test_a_stream_is_read_by_sequence(self) -> None:
        self.fill("abaaab")
        with self.db.connect() as connection:
            read = self.log.read_stream
            assert places(read(connection, "orders", "a", after=1, limit=2)) == [
                ("a", 2), ("a", 3),
            ]  # fmt: skip
            assert len(read(connection, "orders", "a")) == 4
            assert read(connection, "parcels", "a") == ()
