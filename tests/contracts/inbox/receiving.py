"""Receiving: whatever comes, and however often, each message is taken in once."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, func, select, update

from stores.inbox.commands import counts, gaps
from stores.inbox.inbox import Inbox, ReadRange
from stores.inbox.message import Gap
from stores.inbox.receiver import Fenced
from stores.inbox.tables import DEAD, DELIVERIES, MESSAGES, STREAMS
from stores.message import Message
from tests.contracts.inbox.parts import consume, done, make_table, message, named
from tests.examples import some


class Receiving:
    def test_messages_are_delivered_in_sequence_and_once(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        found = inbox.receive([message(1), message(2), message(2), message(3)])
        assert (found.stored, found.duplicates) == (3, 1)
        assert inbox.receive([message(1), message(3)]).duplicates == 2
        assert consume(inbox) == ["a1", "a2", "a3"]
        assert inbox.receive([message(1), message(2), message(3)]).duplicates == 3
        assert consume(inbox) == []
        assert done(engine) == ["a1", "a2", "a3"]

    def test_what_is_ahead_waits_for_what_is_missing(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        inbox.receive([message(1), message(4), message(3), message(7)])
        assert consume(inbox) == ["a1"]
        (gap,) = gaps(inbox)
        assert gap == Gap("orders", "a", 2, 2, gap.since)
        assert gap.since > 0
        inbox.receive([message(2)])
        assert consume(inbox) == ["a2", "a3", "a4"]
        assert [(gap.first, gap.last) for gap in gaps(inbox)] == [(5, 6)]
        inbox.receive([message(6), message(5)])
        assert consume(inbox) == ["a5", "a6", "a7"]
        assert gaps(inbox) == []
        assert counts(inbox).messages == 0

    @pytest.mark.parametrize(("size", "last"), [(1 << 20, 40), (2, some(17_500))])
    def test_all_that_waits_for_one_message_is_delivered_when_it_comes(
        self, engine: Engine, size: int, last: int
    ) -> None:
        """Of more than 16 MiB, the rest stopped for ever, and with it a relay over HTTP."""
        inbox, content = Inbox(engine), b"x" * size

        def of(*sequences: int) -> list[Message]:
            return [Message("orders", "a", n, "Placed", content) for n in sequences]

        inbox.receive(of(*range(2, last)))
        # One of those that come with it waits for nothing else, and one for another gap.
        found = inbox.receive(of(last, last + 2, 1, 5))
        assert (found.stored, found.duplicates, found.conflicts) == (3, 1, 0)
        assert counts(inbox).behind_gaps == 1
        assert [(gap.first, gap.last) for gap in gaps(inbox)] == [(last + 1, last + 1)]
        assert inbox.receive(of(*range(1, 9), last)).duplicates == 9
        inbox.receive(of(last + 1))
        assert gaps(inbox) == []
        assert inbox.receive(of(last + 3)).stored == 1
        assert counts(inbox).behind_gaps == 0

    def test_a_message_that_waits_is_known_when_it_comes_again(self, engine: Engine) -> None:
        inbox = Inbox(engine)
        inbox.receive([message(3)])
        assert inbox.receive([message(3)]).duplicates == 1
        other = Message("orders", "a", 3, "Placed", b"another")
        found = inbox.receive([other])
        assert (found.duplicates, found.conflicts, found.stored) == (1, 1, 0)

    @pytest.mark.parametrize("checked", [True, False])
    def test_what_no_database_takes_is_set_aside_and_its_neighbours_are_not(
        self, engine: Engine, checked: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It would be refused again, however often it is received; what comes with it would be too.

        checked: before it gets to the database; else by the database, which knows of more.
        """
        if not checked:
            monkeypatch.setattr("stores.inbox.receiver.fault", lambda *_: None)
        make_table(engine)
        inbox = Inbox(engine)
        wrong = [message(1, "c\ud800")]
        if checked:
            wrong += [message(2**63), message(2**64, "b"), message(-(2**70), "d")]
            wrong += [message(1, "g", damage="its headers are not text by name")]
        if checked or engine.dialect.name == "postgresql":
            wrong += [message(1, "e\0"), message(1, random.Random(1).randbytes(4000).hex())]
        wrong += [message(1, "f", headers={"name": "\udfff"})]
        found = inbox.receive([message(1), *wrong, message(1, "z"), message(2)])
        assert (found.stored, found.malformed) == (3, len(wrong))
        assert sorted(consume(inbox)) == ["a1", "a2", "z1"]
        assert counts(inbox).dead == len(wrong)

    def test_the_longest_streams_and_the_highest_sequences_are_taken(self, engine: Engine) -> None:
        make_table(engine)
        inbox, letters = Inbox(engine, "c" * 100), random.Random(1)
        long = "".join(chr(letters.randrange(0x10000, 0x1FFFF)) for _ in range(500))
        highest = 2**63 - 1
        messages = [message(1, long, "t" * 249), message(highest, "a"), message(highest - 1, "a")]
        found = inbox.receive(messages)
        assert (found.stored, found.malformed) == (3, 0)
        assert inbox.receive(messages).duplicates == 3
        assert [(gap.first, gap.last) for gap in gaps(inbox)] == [(1, highest - 2)]
        assert len(consume(inbox)) == 1

    def test_streams_inboxes_and_topics_are_apart(self, engine: Engine) -> None:
        make_table(engine)
        one, two = Inbox(engine, "one"), Inbox(engine, "two")
        messages = [message(1, "b"), message(1, "a", "orders"), message(1, "a", "returns")]
        one.receive(messages)
        two.receive(messages[:1])
        assert sorted(consume(one)) == ["a1", "a1", "b1"]
        assert consume(two) == ["b1"]

    def test_more_waits_than_the_sequencer_looks_at_once(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        inbox.receive([message(n) for n in range(2500, 1, -1)])
        assert consume(inbox) == []
        inbox.receive([message(1)])
        assert consume(inbox, batch=500) == named("a", range(1, 2501))

    @settings(
        max_examples=some(15),
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
        ],
    )
    @given(seed=st.integers(0, 2**32), cut=st.integers(1, 30))
    def test_any_arrival_comes_to_the_same(self, engine: Engine, seed: int, cut: int) -> None:
        chance = random.Random(seed)
        inbox = Inbox(engine, f"c{seed}-{cut}")
        sent = [message(n, stream) for stream in "abc" for n in range(1, 12)]
        arrived = sent + chance.choices(sent, k=20)
        chance.shuffle(arrived)
        came: list[str] = []
        with engine.connect() as connection:
            for first in range(0, len(arrived), cut):
                found = inbox.receive(arrived[first : first + cut])
                assert found.stored + found.duplicates == len(arrived[first : first + cut])
                for _ in range(chance.randrange(4)):
                    with inbox.batch(connection, chance.randrange(1, 8)) as messages:
                        came += [each.content.decode() for each in messages]
            while True:
                with inbox.batch(connection) as messages:
                    came += [each.content.decode() for each in messages]
                if not messages:
                    break
        for stream in "abc":
            assert [c for c in came if c[0] == stream] == named(stream, range(1, 12))

    def test_what_is_had_takes_constant_space(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        for first in range(1, 300, 100):
            inbox.receive([message(n) for n in range(first, first + 100)])
            consume(inbox, batch=30)
        with engine.connect() as connection:
            rows = [
                connection.execute(select(func.count()).select_from(table)).scalar_one()
                for table in (STREAMS, DELIVERIES, MESSAGES)
            ]
        assert rows == [1, 1, 0]

    def test_what_can_be_of_no_stream_is_kept_with_the_reason(self, engine: Engine) -> None:
        inbox = Inbox(engine)
        found = inbox.receive(
            [message(0), message(1, "nul\0"), message(1, "\ud800"), message(1, ""), message(2**63)],
            malformed=[("no header", None)],
        )
        assert (found.malformed, found.stored) == (6, 0)
        assert counts(inbox).dead == 6

    def test_a_stream_has_room_for_so_many_behind_a_gap(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, max_gap=10)
        found = inbox.receive([message(5), message(10), message(11), message(1, "b")])
        assert [each.sequence for each in found.refused] == [11]
        assert found.stored == 3
        inbox.receive([message(n) for n in range(1, 5)])
        assert inbox.receive([message(11)]).stored == 1
        assert list(inbox.receive([message(99, void=True)]).refused) == [], "it takes no room"
        assert counts(inbox).behind_gaps == 3

    def test_offsets_move_with_the_messages_or_not_at_all(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        at = ("orders", 0)
        inbox.receive([message(1)], read={at: ReadRange(0, 5)})
        assert inbox.offsets() == {at: 5}
        with pytest.raises(Fenced, match="orders/0 is not at offset 3"):
            inbox.receive([message(2)], read={at: ReadRange(3, 9)})
        assert inbox.offsets() == {at: 5}
        assert consume(inbox) == ["a1"]

    def test_void_messages_are_passed_in_their_turn(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        inbox.receive([message(2, void=True), message(3), message(4, void=True)])
        assert consume(inbox) == []
        inbox.receive([message(1)])
        assert consume(inbox) == ["a1", "a3"]
        assert counts(inbox).messages == 0
        inbox.receive([message(5)])
        assert consume(inbox) == ["a5"]

    def test_a_long_run_of_void_messages_is_passed(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine)
        inbox.receive([message(n, void=n < 1500) for n in range(1, 1501)])
        assert consume(inbox) == ["a1500"]

    def test_records_of_an_output_topic_merely_grow(self, engine: Engine) -> None:
        make_table(engine)
        inbox = Inbox(engine, order="monotonic")
        inbox.receive([message(-3), message(4), message(9), message(4), message(5)])
        assert consume(inbox) == ["a-3", "a4", "a9"]
        found = inbox.receive([message(9), message(2, epoch=1), message(12), message(7, epoch=1)])
        assert (found.stored, found.duplicates) == (2, 2)
        assert consume(inbox) == ["a2", "a7"]
        assert inbox.receive([message(7, epoch=1), message(99)]).stored == 0

    def test_the_dead_do_not_grow_for_ever_and_stay_counted(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SEQUITUR_DEAD_RECORDS", "3")
        one, other = Inbox(engine, "one"), Inbox(engine, "other")
        other.receive([], malformed=[("of the other", b"x")])
        for number in range(5):
            one.receive([], malformed=[(f"{number} a", b"x"), (f"{number} b", None)])
        assert (counts(one).dead, counts(one).dead_removed) == (10, 7)
        assert (counts(other).dead, counts(other).dead_removed) == (1, 0)
        with engine.connect() as connection:
            kept = select(DEAD.c.inbox, DEAD.c.reason).order_by(DEAD.c.id)
            assert [tuple(row) for row in connection.execute(kept)] == [
                ("other", "of the other"), ("one", "3 b"), ("one", "4 a"), ("one", "4 b"),
            ]  # fmt: skip

    def test_the_dead_are_kept_for_as_many_days_as_said(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SEQUITUR_DEAD_DAYS", "2")
        inbox = Inbox(engine)
        inbox.receive([], malformed=[("old", b"x"), ("new", b"x")])
        with engine.begin() as connection:
            aged = update(DEAD).where(DEAD.c.reason == "old")
            connection.execute(aged.values(at=DEAD.c.at - 3 * 86_400_000))
        inbox.receive([], malformed=[("newer", b"x")])
        assert (counts(inbox).dead, counts(inbox).dead_removed) == (3, 1)

    def test_gaps_are_told_page_by_page(self, engine: Engine) -> None:
        inbox = Inbox(engine)
        inbox.receive([message(2, f"s{number:03}") for number in range(25)])
        pages = [gaps(inbox, 10, skip) for skip in (0, 10, 20, 30)]
        assert [len(page) for page in pages] == [10, 10, 5, 0]
        assert len({gap.stream for page in pages for gap in page}) == 25
