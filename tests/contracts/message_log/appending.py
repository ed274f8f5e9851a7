"""Messages get into the log, numbered without a gap, or are refused."""

import time
from uuid import UUID

import pytest
from sqlalchemy import text

from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft, MessageLogError, MessageRefused
from tests.contracts.message_log.base import OnEngine, draft, places


class Appends(OnEngine):
    def test_sequences_count_from_1_in_each_stream_of_each_topic(self) -> None:
        assert self.fill("abaab") == [1, 1, 2, 3, 2]
        assert self.fill("ab", "parcels") == [1, 1]
        assert self.fill("b") == [3]
        with self.db.begin() as connection:
            assert self.outbox.capture(connection, "orders", "a", None, b"") == 4
            assert self.outbox.capture(connection, "orders", "a", None, b"") == 5
            assert self.outbox.capture(connection, "orders", "new", None, b"") == 1

    def test_a_rolled_back_transaction_leaves_no_gap(self) -> None:
        self.fill("ab")
        with self.db.connect() as connection:
            assert self.outbox.capture(connection, "orders", "a", None, b"") == 2
            assert self.outbox.capture_many(connection, [draft("a"), draft("new")]) == [3, 1]
            connection.rollback()
        assert self.fill(["a", "new"]) == [2, 1]
        assert places(self.messages()) == [("a", 1), ("b", 1), ("a", 2), ("new", 1)]

    def test_so_does_a_rolled_back_savepoint(self) -> None:
        with self.db.begin() as connection:
            assert self.outbox.capture(connection, "orders", "a", None, b"kept") == 1
            savepoint = connection.begin_nested()
            assert self.outbox.capture(connection, "orders", "a", None, b"gone") == 2
            savepoint.rollback()
            assert self.outbox.capture(connection, "orders", "a", None, b"kept") == 2
        assert [message.content for message in self.messages()] == [b"kept", b"kept"]

    def test_a_message_is_read_as_it_was_appended(self) -> None:
        before = time.time()
        drafts = [
            Draft("orders", "Ä 7", "Placed", {"total": 1.5}, {"trace": "é"}),
            Draft("orders", 17, None, b"\x00\xff", {}),
            Draft("orders.v-2", UUID(int=5), "K" * 200, memoryview(b"as it is")),
            Draft("orders", "s" * 1000, "", b""),
        ]
        with self.db.begin() as connection:
            self.outbox.capture_many(connection, drafts)
            one = drafts[0]
            self.outbox.capture(connection, one.topic, "x", one.kind, one.content, one.headers)
        found = self.messages()
        assert [(m.topic, m.stream, m.kind, m.content, dict(m.headers)) for m in found] == [
            ("orders", "Ä 7", "Placed", b'{"total":1.5}', {"trace": "é"}),
            ("orders", "17", None, b"\x00\xff", {}),
            ("orders.v-2", str(UUID(int=5)), "K" * 200, b"as it is", {}),
            ("orders", "s" * 1000, "", b"", {}),
            ("orders", "x", "Placed", b'{"total":1.5}', {"trace": "é"}),
        ]
        # Two clocks of one machine, which may be set.
        assert all(abs(message.captured_at - before) < 600 for message in found)

    def test_many_are_appended_in_their_order(self) -> None:
        streams = [f"s{number * 7 % 13}" for number in range(2500)]
        sequences = self.fill(streams)
        counts: dict[str, int] = {}
        for stream, sequence in zip(streams, sequences, strict=True):
            counts[stream] = counts.get(stream, 0) + 1
            assert sequence == counts[stream]
        found = self.messages()
        assert sorted(places(found)) == sorted(zip(streams, sequences, strict=True))
        for stream in counts:
            of_stream = [m.sequence for m in found if m.stream == stream]
            assert of_stream == sorted(of_stream)
        with self.db.begin() as connection:
            assert self.outbox.capture_many(connection, []) == []

    @pytest.mark.parametrize(
        ("bad", "says"),
        [
            (Draft("", "a", None, b""), "topic"),
            (Draft("a b", "a", None, b""), "topic"),
            (Draft("t", "", None, b""), "stream is empty"),
            (Draft("t", "a\0b", None, b""), "NUL"),
            (Draft("t", "\ud800", None, b""), "UTF-8"),
            (Draft("t", "s" * 1001, None, b""), "1001 bytes"),
            (Draft("t", True, None, b""), "bool"),
            (Draft("t", None, None, b""), "NoneType"),  # type: ignore[arg-type]
            (Draft("t", "a", 5, b""), "kind is a int"),  # type: ignore[arg-type]
            (Draft("t", "a", None, object()), "no JSON"),
            (Draft("t", "a", None, b"x" * 1_000_001), "1000001 bytes"),
            (Draft("t", "a", None, b"", {"n": 5}), "'n'"),  # type: ignore[dict-item]
            (Draft("t", "a", None, b"", {"Sequitur-Kind": "x"}), "transfer's own"),
            (Draft("t", "a", None, b"", {"n": "x" * 16_000}), "16"),
        ],
    )
    def test_what_cannot_be_a_message_is_refused_before_anything_is_done(
        self, bad: Draft, says: str
    ) -> None:
        with self.db.begin() as connection:
            with pytest.raises(MessageRefused, match=says):
                self.outbox.capture_many(connection, [draft("a"), bad])
            assert self.outbox.capture(connection, "orders", "a", None, b"") == 1

    def test_logs_of_other_names_are_apart(self) -> None:
        other = MessageLog("other", schema=self.log.schema, max_content=3)
        other.create(self.db)
        other.create(self.db)
        outbox = Outbox(other, notify=False)
        self.fill("a")
        with self.db.begin() as connection:
            assert outbox.capture(connection, "orders", "a", None, b"123") == 1
            with pytest.raises(MessageRefused, match="4 bytes, 3 are the limit"):
                outbox.capture(connection, "orders", "a", None, b"1234")
            assert len(other.read_after(connection).messages) == 1
            self.log.create(connection)
        assert len(self.messages()) == 1

    @pytest.mark.parametrize("name", ["", 'a"; DROP TABLE x', "a b", "9a", "a" * 41, "ä"])
    def test_a_name_that_is_no_plain_one_is_refused(self, name: str) -> None:
        with pytest.raises(MessageLogError, match="its name"):
            MessageLog(name)

    def test_a_layout_of_another_version_is_refused(self) -> None:
        with self.db.begin() as connection:
            schema = f'"{self.log.schema}".' if self.log.schema else ""
            connection.execute(text(f"UPDATE {schema}sequitur_layout SET version = 99"))
        with pytest.raises(MessageLogError, match=r"layout 99.*another name"):
            self.log.create(self.db)
