"""What one topic or stream refuses holds back itself alone, in order, in bounded memory."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    InvalidTimestampError,
    InvalidTxnState,
    LeaderNotAvailableError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    ProducerFenced,
    TopicAuthorizationFailedError,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, text, update

from sequitur.relay import kafka_link
from sequitur.relay.kafka_link import KafkaLink
from sequitur.relay.kafka_refused import settled
from sequitur.relay.leadership import RelayConfig
from sequitur.relay.link import Answer, MissingRange, SendResult, Superseded, Unavailable
from sequitur.relay.outstanding import Outstanding
from sequitur.relay.reading import PAGE_BYTES
from sequitur.relay.relay import Relay
from stores.locks.lease import LEASES, Lease, LeaseLost
from stores.message import Message
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft
from tests.apps.sequitur.relay.parts import running, until
from tests.examples import some


def message(n: int, topic: str = "orders", stream: str = "a", content: bytes = b"x") -> Message:
    return Message(topic, stream, n, None, content, id=n, captured_at=1.0)


# -- the link, with a broker that refuses


class FakeBroker:
    """What a producer is told: topic → the error of its batches; None answers nothing at all."""

    def __init__(self) -> None:
        self.errors: dict[str, Any] = {}
        self.denied: set[str] = set()
        self.large = 10**9
        self.committed: list[tuple[str, bytes, int]] = []
        self.opened = 0


class Batch:
    def __init__(self) -> None:
        self.records: list[tuple[bytes, int, Any]] = []

    def append(self, *, key: Any, value: bytes, timestamp: int, headers: Any) -> object:
        self.records.append((value, timestamp, headers))
        return self

    def close(self) -> None: ...


class Producer:
    """As much of `AIOKafkaProducer` as the link uses."""

    def __init__(self, broker: FakeBroker, **_: Any) -> None:
        self.broker = broker
        cluster = SimpleNamespace(partitions_for_topic=lambda topic: {0}, unauthorized_topics=set())
        self.client = SimpleNamespace(cluster=cluster, add_topic=self._nothing)
        self._txn_manager = SimpleNamespace(wait_for_transaction_end=lambda: self.ended)
        self.open: list[tuple[str, bytes, int]] = []

    async def _nothing(self, *_: Any) -> None: ...

    async def start(self) -> None:
        self.broker.opened += 1

    stop = _nothing

    async def begin_transaction(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()
        self.open = []

    async def commit_transaction(self) -> None:
        self.broker.committed += self.open

    def create_batch(self) -> Batch:
        return Batch()

    async def send_batch(self, batch: Batch, topic: str, partition: int) -> Any:
        future = asyncio.get_running_loop().create_future()
        error = self.broker.errors.get(topic, False)
        if topic in self.broker.denied:
            if not self.ended.done():
                self.ended.set_exception(TopicAuthorizationFailedError({topic}))
            future.set_exception(InvalidTxnState())
        elif any(len(value) > self.broker.large for value, *_ in batch.records):
            future.set_exception(MessageSizeTooLargeError())
        elif error:
            future.set_exception(error)
        elif error is False:
            self.open += [(topic, value, stamp) for value, stamp, _ in batch.records]
            future.set_result(None)
        return future


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    made = FakeBroker()
    monkeypatch.setattr(kafka_link, "AIOKafkaProducer", lambda **more: Producer(made, **more))
    return made


MIXED = [message(1, "bad"), message(2, "good"), message(3, "bad", "b"), message(4, "good", "b")]


@pytest.mark.parametrize(
    "error",
    [
        InvalidTimestampError(),
        TopicAuthorizationFailedError("bad"),
        LeaderNotAvailableError(),
        NotLeaderForPartitionError(),
    ],
)
async def test_one_refused_topic_holds_back_itself_alone(fake: FakeBroker, error: Any) -> None:
    fake.errors["bad"] = error
    sent = await KafkaLink("one", {}).send(MIXED, [Answer("bad", b"", b"void")])
    assert [each.id for each in sent.refused] == [1, 3]
    assert list(sent.topics) == ["bad"]
    assert [topic for topic, *_ in fake.committed] == ["good", "good"]


async def test_who_was_replaced_sends_nothing_more_when_it_opens_its_link_anew(
    fake: FakeBroker,
) -> None:
    """By that it has shut out its successor, which may have sent the same and more."""
    fake.errors["bad"] = InvalidTimestampError()
    link = KafkaLink("one", {})
    await link.open()

    async def leads() -> None:
        raise LeaseLost("another one leads")

    link.leads = leads
    with pytest.raises(LeaseLost):
        await link.send(MIXED)
    assert fake.committed == []


async def test_a_relay_whose_lease_is_over_says_so(engine: Engine) -> None:
    link, lease = Refusing(), Lease(engine, "relay", "one")
    relay = Relay(engine, MessageLog(), link, lease)
    async with running(relay):
        await until(relay.leading.is_set)
        await relay.still_leads()
        with engine.begin() as connection:
            connection.execute(update(LEASES).values(epoch=LEASES.c.epoch + 1, holder="two"))
        with pytest.raises(LeaseLost):
            await relay.still_leads()


async def test_without_any_leader_it_is_kafka_that_is_away(fake: FakeBroker) -> None:
    fake.errors |= {"bad": LeaderNotAvailableError(), "good": NotLeaderForPartitionError()}
    with pytest.raises(Unavailable, match=r"NotAvailable|NotLeader"):
        await KafkaLink("one", {}).send(MIXED)


async def test_a_topic_that_may_not_be_part_of_a_transaction_is_found(fake: FakeBroker) -> None:
    """aiokafka fails the transaction then, and with it the batches of all other topics."""
    fake.denied.add("bad")
    sent = await KafkaLink("one", {}).send(MIXED)
    assert list(sent.topics) == ["bad"]
    assert [value for _, value, _ in fake.committed] == [b"x", b"x"]
    # A transaction that has failed is ended by who opens the link next.
    assert fake.opened == 2


async def test_a_topic_that_does_not_answer_holds_back_itself_alone(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def soon(producer: Any, batches: Any, _: float) -> None:
        await settled(producer, batches, 0.1)

    monkeypatch.setattr(kafka_link, "settled", soon)
    fake.errors["bad"] = None
    link = KafkaLink("one", {}, acknowledged=600)
    sent = await link.send(MIXED)
    assert list(sent.topics) == ["bad"]
    assert len(fake.committed) == 2
    with pytest.raises(Unavailable):  # nothing answers: that is no topic's doing
        await link.send([message(1, "bad")])


async def test_two_refused_topics_and_a_message_that_is_too_large(fake: FakeBroker) -> None:
    fake.errors |= {
        "bad": InvalidTimestampError(),
        "worse": TopicAuthorizationFailedError("worse"),
    }
    fake.large = 5
    large = message(5, "good", "c", b"too large")
    messages = [
        *MIXED,
        large,
        message(6, "good", "c"),
        message(7, "worse"),
        message(8, "good", "d"),
    ]
    sent = await KafkaLink("one", {}).send(messages)
    assert {each.id for each in sent.refused} == {1, 3, 5, 6, 7}
    assert set(sent.topics) == {"bad", "worse"}
    assert len(fake.committed) == 3


async def test_who_is_fenced_is_told_so_whatever_else_fails(fake: FakeBroker) -> None:
    fake.errors |= {"bad": ProducerFenced()}
    with pytest.raises(Superseded):
        await KafkaLink("one", {}).send(MIXED)


async def test_records_are_stamped_with_the_time_of_writing(
    fake: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time of capture Kafka would delete them at once after an outage beyond retention."""
    monkeypatch.setattr("sequitur.relay.kafka_link.time.time", lambda: 1_700_000_000.5)
    await KafkaLink("one", {}).send([message(1)], [Answer("orders.void", b"a", b"")])
    assert {stamp for *_, stamp in fake.committed} == {1_700_000_000_500}


# -- the relay, with a link that refuses


class Refusing:
    """A link that refuses topics as a whole, and single streams, and cannot send some messages."""

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.streams: set[str] = set()
        self.taken: list[Message] = []
        self.calls = 0

    async def open(self, log: str = "") -> None: ...

    async def close(self) -> None: ...

    async def void(self, missing: MissingRange, first: int, last: int) -> list[Answer]:
        return []

    async def send(self, messages: Sequence[Message], answers: Sequence[Answer] = ()) -> SendResult:
        self.calls += 1
        for each in messages:
            for value in each.headers.values():
                value.encode()
        refused = [m for m in messages if m.topic in self.topics or m.stream in self.streams]
        self.taken += [m for m in messages if m not in refused]
        topics = dict.fromkeys({m.topic for m in refused} & self.topics, "not allowed")
        return SendResult(refused, reason="no room", topics=topics)


def append(engine: Engine, topic: str, numbers: Iterable[int], streams: str = "abc") -> None:
    with engine.begin() as connection:
        drafts = [Draft(topic, stream, None, b"%d" % n) for n in numbers for stream in streams]
        Outbox(MessageLog()).capture_many(connection, drafts)


def in_order(taken: Sequence[Message]) -> dict[tuple[str, str], list[int]]:
    """Stream → sequences as they were taken for the first time."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for each in taken:
        if each.sequence not in found[each.topic, each.stream]:
            found[each.topic, each.stream].append(each.sequence)
    return found


async def test_a_refused_topic_does_not_stop_the_others_however_much_of_it_there_is(
    engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outstanding.__init__, "__defaults__", (0.01, 0.05, 50, 1 << 20))
    link = Refusing()
    link.topics = {"bad"}
    append(engine, "bad", range(200))
    append(engine, "good", range(50))
    config = RelayConfig(page=40, poll=0.02, retry=0.02)
    relay = Relay(engine, MessageLog(), link, Lease(engine, "relay", "one"), config=config)
    with caplog.at_level(logging.INFO):
        async with running(relay):
            await until(lambda: relay.moved.deleted == 150)
            append(engine, "good", range(50, 60))
            append(engine, "bad", range(200, 210))
            await until(lambda: relay.moved.deleted == 180)
            calls = link.calls
            await until(lambda: link.calls > calls + 5)
            link.topics = set()
            await until(lambda: relay.moved.deleted == 180 + 630)
    for stream in "abc":
        assert in_order(link.taken)["bad", stream] == list(range(1, 211))
        assert in_order(link.taken)["good", stream] == list(range(1, 61))
    told = [each for each in caplog.messages if "topic bad, to be sent again" in each]
    assert len(told) == 1, "it is told once, and not with every try"
    assert any("topic bad takes messages" in each for each in caplog.messages)


async def test_a_receiver_that_is_away_is_told_of_now_and_then(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    class AwayLink(Refusing):
        async def send(
            self, messages: Sequence[Message], answers: Sequence[Answer] = ()
        ) -> SendResult:
            self.calls += 1
            if self.calls < 20:
                raise Unavailable("the inbox is away")
            return await super().send(messages, answers)

    append(engine, "orders", [1])
    config = RelayConfig(poll=0.02, retry=0.001)
    relay = Relay(engine, MessageLog(), AwayLink(), Lease(engine, "relay", "one"), config=config)
    async with running(relay):
        await until(lambda: relay.moved.deleted == 3)
    assert caplog.text.count("the inbox is away; it is sent again") == 1


class Recording(Refusing):
    """A link that says how many bytes of contents each batch had; it keeps no contents."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes: list[int] = []

    async def send(self, messages: Sequence[Message], answers: Sequence[Answer] = ()) -> SendResult:
        self.bytes.append(sum(len(each.content) for each in messages))
        sent = await super().send(messages, answers)
        self.taken = [replace(each, content=b"") for each in self.taken]
        return sent


async def test_large_messages_behind_small_ones_are_sent_a_few_at_a_time(engine: Engine) -> None:
    """By the size of the small ones all of them were one page, and one transaction of Kafka."""
    contents = [b"1"] * 2_200 + [b"2" * 500_000] * 200
    with engine.begin() as connection:
        drafts = [Draft("orders", "a", None, each) for each in contents]
        Outbox(MessageLog()).capture_many(connection, drafts)
    link = Recording()
    relay = Relay(engine, MessageLog(), link, Lease(engine, "relay", "one"))
    async with running(relay):
        await until(lambda: relay.moved.deleted == 2_400)
    assert max(link.bytes) <= PAGE_BYTES + 1_000_000
    assert [each.sequence for each in link.taken] == list(range(1, 2_401))


async def test_a_part_of_a_page_that_waits_as_a_whole_does_not_hold_back_the_next(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits behind what was refused of the part before; nobody wakes who sends for the rest."""
    monkeypatch.setattr("sequitur.relay.relay.PAGE_BYTES", 4)
    monkeypatch.setattr(Outstanding.__init__, "__defaults__", (600, 600, 1_000, 1 << 20))
    append(engine, "orders", [1] * 20, "a")
    append(engine, "orders", [1] * 20, "b")
    link = Recording()
    link.streams = {"a"}
    config = RelayConfig(ask=600, poll=0.02)
    relay = Relay(engine, MessageLog(), link, Lease(engine, "relay", "one"), config=config)
    async with running(relay):
        await until(lambda: relay.moved.deleted == 20, 30)
        assert relay.term is not None
        assert len(relay.term.outstanding) == 20
    assert max(link.bytes) <= 4
    assert [(each.stream, each.sequence) for each in link.taken] == [("b", n) for n in range(1, 21)]


async def test_a_damaged_row_holds_back_its_stream_alone(engine: Engine) -> None:
    append(engine, "orders", range(5))
    with engine.begin() as connection:
        for sql in (
            "UPDATE sequitur_messages SET headers = '{' WHERE stream = 'a' AND sequence = 3",
            "UPDATE sequitur_messages SET content = NULL, captured_at = 'x', kind = x'ff' "
            "WHERE stream = 'b' AND sequence = 1",
        ):
            connection.execute(text("PRAGMA ignore_check_constraints = 1"))
            connection.execute(text(sql.replace("content = NULL, ", "content = 7, ")))
    link = Refusing()
    relay = Relay(engine, MessageLog(), link, Lease(engine, "relay", "one"))
    async with running(relay):
        await until(lambda: relay.moved.deleted == 7)
    assert in_order(link.taken) == {("orders", "a"): [1, 2], ("orders", "c"): [1, 2, 3, 4, 5]}


async def test_a_sequence_that_is_none_holds_back_its_stream_until_it_is_repaired(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be sent, discarded by all as a duplicate, and deleted."""
    monkeypatch.setattr(Outstanding.__init__, "__defaults__", (0.01, 0.05, 1_000, 1 << 20))
    append(engine, "orders", range(3), "a")
    change = "UPDATE sequitur_messages SET sequence = {} WHERE sequence = {}"
    with engine.begin() as connection:
        connection.execute(text(change.format(0, 2)))
    link = Refusing()
    relay = Relay(engine, MessageLog(), link, Lease(engine, "relay", "one"))
    async with running(relay):
        await until(lambda: relay.term is not None and len(relay.term.outstanding) == 2)
        assert "its sequence is no number from 1 on" in caplog.text
        await until(lambda: relay.moved.deleted == 1)
        with engine.begin() as connection:
            connection.execute(text(change.format(2, 0)))
        await until(lambda: relay.moved.deleted == 3)
    assert in_order(link.taken)["orders", "a"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("remedy", "sent"),
    [
        ("UPDATE sequitur_messages SET headers = NULL WHERE sequence = 1", [1, 2, 3]),
        ("UPDATE sequitur_messages SET headers = NULL, stream = 'b' WHERE sequence = 1", [2, 3]),
        ("void", [2, 3]),
    ],
)
async def test_a_damaged_row_holds_back_its_stream_until_it_is_repaired_or_void(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, remedy: str, sent: list[int]
) -> None:
    monkeypatch.setattr(Outstanding.__init__, "__defaults__", (0.01, 0.05, 1_000, 1 << 20))
    append(engine, "orders", range(3), "a")
    with engine.begin() as connection:
        connection.execute(text("UPDATE sequitur_messages SET headers = '{' WHERE sequence = 1"))
    link = Refusing()
    relay = Relay(engine, MessageLog(), link, Lease(engine, "relay", "one"))
    async with running(relay):
        await until(lambda: relay.term is not None and len(relay.term.outstanding) == 3)
        with engine.begin() as connection:
            if remedy == "void":
                MessageLog().declare_void(connection, "orders", "a", 1, 1, "spoilt")
            else:
                connection.execute(text(remedy))
        await until(lambda: relay.moved.deleted == (2 if remedy == "void" else 3))
    assert in_order(link.taken)["orders", "a"] == sent


async def test_what_is_void_is_not_sent_once_its_stream_is_taken(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Outstanding.__init__, "__defaults__", (0.01, 0.05, 1_000, 1 << 20))
    append(engine, "orders", range(2), "a")
    link = Refusing()
    link.streams = {"a"}
    relay = Relay(engine, MessageLog(), link, Lease(engine, "relay", "one"))
    async with running(relay):
        await until(lambda: link.calls > 0)
        with engine.begin() as connection:
            MessageLog().declare_void(connection, "orders", "a", 1, 1, "too large")
        calls = link.calls
        await until(lambda: link.calls > calls + 2)
        link.streams = set()
        await until(lambda: relay.moved.deleted == 1)
    assert [each.sequence for each in link.taken] == [2]


# -- what waits, with every order of refusals


def test_a_topic_and_a_stream_of_it_may_be_due_at_the_same_time() -> None:
    held = Outstanding(room=8)
    held.refuse([message(1, "T", "b")], 0.0)
    held.refuse([message(2, "U", "b")], 0.0, {"U"})
    held.refuse([message(3, "U", "b"), message(4, "T", "a")], 0.0, {"T"})
    assert {each.id for each in held.take(100.0, 9)} >= {1, 2}


@given(st.data())
@settings(max_examples=some(60))
def test_whatever_is_refused_when_each_stream_comes_in_order_and_nothing_is_lost(
    data: st.DataObject,
) -> None:
    """The loop of the relay, with a log that is read again where what waited was left to it."""
    places = st.tuples(st.sampled_from("TU"), st.sampled_from("ab"))
    log = dict(enumerate(data.draw(st.lists(places, max_size=40)), 1))
    limit = data.draw(st.integers(1, 5))
    room, at_a_time = data.draw(st.integers(1, 8)), data.draw(st.integers(1, 5))
    taken: list[tuple[tuple[str, str], int]] = []
    room_bytes = data.draw(st.integers(1, 50))
    held, position, now, steps = Outstanding(room=room, room_bytes=room_bytes), 0, 0.0, 0
    while log:
        steps += 1
        good = steps > 25  # from here on all is taken
        assert steps < 2000, "it does not come to an end"
        messages = held.take(now, limit, at_a_time)
        assert len(messages) <= at_a_time, "each has a byte"
        if not messages:
            page = [n for n in sorted(log) if n > position][:limit]
            position = max([position, *page])
            messages = held.admit([message(n, *log[n]) for n in page])
        now += 1
        topics = () if good else data.draw(st.sets(st.sampled_from("TU")))
        streams = set() if good else data.draw(st.sets(places))
        stuck: set[tuple[str, str]] = set()
        refused = []
        for each in messages:
            at = each.topic, each.stream
            if each.topic in topics or at in streams:
                stuck.add(at)
            if at in stuck:
                refused.append(each)
        held.refuse(refused, now, topics)
        acknowledged = [each for each in messages if each not in refused]
        held.settle(acknowledged)
        for each in acknowledged:
            taken.append(((each.topic, each.stream), each.id))
            log.pop(each.id, None)
        assert len(held) <= room + 4, "what waits is bounded, but for the head of each stream"
        if held.anew:
            held, position = Outstanding(room=room, room_bytes=room_bytes), 0
    for stream in {at for at, _ in taken}:
        ids = list(dict.fromkeys(id for at, id in taken if at == stream))
        assert ids == sorted(ids)
