"""What a command sends by itself is said to be sent when the broker has it, and not before."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar

import orjson
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    IllegalOperation,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
)

from tests.topology.handled import driver_of, order
from tests.topology.partition import INSPECTOR
from topology import Event, Inspected, Message, Topology, TopologyTestDriver
from topology.diagnostics.explain.command_log import answered_command, merged
from topology.engine.redelivery.dead_events import DeadEventFilter, find_dead
from topology.faust.inspection import CannotAnswer
from topology.faust.inspection.durable import Span
from topology.faust.operation import dead_events, malformed_messages, recorded_sends
from topology.faust.operation.dead_events import Redriven
from topology.faust.operation.recorded_sends import RecordedSends, in_parts
from topology.model.event import Record
from topology.model.large import TOPIC_BYTES

NOW = 1_700_000_000_000
APP = SimpleNamespace(conf=SimpleNamespace(id="shop"))


class Producer:
    """aiokafka's, of a broker that refuses what goes to some topics."""

    made: ClassVar[list["Producer"]]
    committed: ClassVar[list[Record]]
    refuses: ClassVar[Mapping[str, Exception]]
    silent: ClassVar[bool]

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.sent: list[Record] = []
        self.ended: list[str] = []
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._txn_manager = self
        self.made.append(self)

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def begin_transaction(self) -> None:
        self.sent = []

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes | None, partition: int,
        timestamp_ms: int, headers: list[tuple[str, bytes]],
    ) -> "asyncio.Future[None]":  # fmt: skip
        if self.failed.done():
            raise IllegalOperation("Can't send messages while not in transaction")
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent.append(Record(topic, partition, 0, key, value, headers, timestamp_ms))
        if topic in self.refuses:
            answer.set_exception(self.refuses[topic])
        elif not self.silent:
            answer.set_result(None)
        return answer

    async def commit_transaction(self) -> None:
        self.ended.append("committed")
        self.committed.extend(self.sent)

    async def abort_transaction(self) -> None:
        self.ended.append("aborted")

    def is_fatal_error(self) -> bool:
        return False

    def wait_for_transaction_end(self) -> "asyncio.Future[None]":
        return self.failed


@pytest.fixture(autouse=True)
def producer(monkeypatch: pytest.MonkeyPatch) -> type[Producer]:
    class Fresh(Producer):
        made: ClassVar[list[Producer]] = []
        committed: ClassVar[list[Record]] = []
        refuses: ClassVar[Mapping[str, Exception]] = {}
        silent: ClassVar[bool] = False

    monkeypatch.setattr(recorded_sends, "AIOKafkaProducer", Fresh)
    monkeypatch.setattr(recorded_sends, "connection", lambda app: {})
    return Fresh


def skipped(*sequences: int) -> TopologyTestDriver:
    """A driver in whose view these are dead, as a command passed them."""

    def board(event: Event) -> None:
        pass

    driver = driver_of(board)
    for sequence in sequences:
        driver.pipe("orders", order(sequence))
    assert driver.command("skip", "board", "a", max(sequences), force=True).done
    assert driver.counts("board").dead == len(sequences)
    return driver


async def put_back(driver: TopologyTestDriver, why: str = "") -> None:
    """Send all dead events of the driver's view, as `redrive-dead` does."""
    view = driver.topology.views["board"]
    found = find_dead(view, driver._storage.topics[view.dead_topic], DeadEventFilter(), ())
    await dead_events._send(APP, view, Redriven(view.name, found, {}, dry_run=False), NOW, why)


async def test_dead_events_and_the_record_of_them_are_one_transaction(
    producer: type[Producer],
) -> None:
    await put_back(skipped(3, 5), "it is mended")
    [made] = producer.made
    assert made.settings["transactional_id"] == "shop-redrive-dead-board"
    assert made.ended == ["committed"]
    *back, told = producer.committed
    assert [each.topic for each in back] == ["shop.board.redeliver"] * 2
    assert (told.topic, told.partition, told.timestamp) == ("shop.audit", 0, NOW)
    body = orjson.loads(told.value or b"")
    assert (body["done"], body["facts"], body["why"]) == (True, {"offsets": [0, 1]}, "it is mended")


async def test_dead_events_that_the_broker_refuses_are_not_said_to_be_put_back(
    producer: type[Producer],
) -> None:
    topic = "shop.board.redeliver"
    producer.refuses = {topic: TopicAuthorizationFailedError(topic)}
    with pytest.raises(TopicAuthorizationFailedError):
        await put_back(skipped(3))
    [made] = producer.made
    assert (made.ended, producer.committed) == (["aborted"], [])


async def test_the_reason_that_is_told_is_the_first_error_of_the_transaction(
    producer: type[Producer],
) -> None:
    async with RecordedSends(APP, "replay-malformed") as sends:
        producer.made[0].failed.set_exception(TopicAuthorizationFailedError("orders"))
        with pytest.raises(TopicAuthorizationFailedError):
            await sends.send([Record("orders", 0, 0, b"a", b"1")])


async def test_a_broker_that_does_not_answer_is_not_waited_for_for_ever(
    producer: type[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_sends, "PATIENCE", 0.05)
    producer.silent = True
    async with RecordedSends(APP, "replay-unknown") as sends:
        with pytest.raises(CannotAnswer, match="did not take what was sent"):
            await sends.send([Record("orders", 0, 0, b"a", b"1")])
    [made] = producer.made
    assert (made.ended, producer.committed) == (["aborted"], [])


async def test_what_is_too_large_for_its_topic_is_said_so(producer: type[Producer]) -> None:
    producer.refuses = {"orders": MessageSizeTooLargeError()}
    async with RecordedSends(APP, "replay-malformed") as sends:
        with pytest.raises(CannotAnswer, match=r"'orders'; raise its max\.message\.bytes"):
            await sends.send([Record(each, 0, 0, b"a", b"1") for each in ("shop.audit", "orders")])
    [made] = producer.made
    assert (made.ended, producer.committed) == (["aborted"], [])


async def test_whatever_the_dead_topic_takes_is_put_back(producer: type[Producer]) -> None:
    await put_back(skipped(3))
    assert producer.made[0].settings["max_request_size"] > TOPIC_BYTES


async def test_many_go_in_parts_each_with_a_record_and_are_listed_as_one_command(
    producer: type[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_sends, "PART", 2)
    await put_back(skipped(2, 4, 6, 8, 10))
    [made] = producer.made
    assert made.ended == ["committed"] * 3
    bodies = [orjson.loads(e.value or b"") for e in producer.committed if e.topic == "shop.audit"]
    assert [body["facts"]["offsets"] for body in bodies] == [[0, 1], [2, 3], [4]]
    assert len(producer.committed) == 5 + 3
    [listed] = merged(map(answered_command, bodies))
    assert listed.message == "view board: 5 of 5 dead events put back"


def test_a_part_has_few_bytes_but_for_one_large_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_sends, "PART_BYTES", 10)
    sizes = (4, 4, 4, 30, 1)
    found = [SimpleNamespace(record=Record("dead", 0, 0, None, b"x" * size)) for size in sizes]
    assert [(end, len(part)) for end, part in in_parts(found)] == [(3, 3), (4, 1), (5, 1)]
    assert list(in_parts(found[:0])) == []


def shop(inspector: Any) -> Topology:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=inspector)
    topology.view("board", of=orders, handler=lambda event: None)
    return topology


def broken(message: Message) -> Inspected:
    raise ValueError("an old format")


async def test_what_is_left_of_many_messages_is_counted(
    producer: type[Producer], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = TopologyTestDriver(shop(broken), strict=False)
    for sequence in (1, 2, 3):
        driver.pipe("orders", order(sequence))
    topics = driver._storage.topics

    class Durable:
        def __init__(self, app: Any) -> None:
            self.topology, self.now = app.engine.topology, NOW

        async def __aenter__(self) -> "Durable":
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

        async def span(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Span]:
            return {each: Span(0, len(topics.get(each.topic, []))) for each in partitions}

        async def records(
            self, partition: TopicPartition, start: int, end: int
        ) -> AsyncIterator[Record]:
            for record in topics.get(partition.topic, [])[start:end]:
                yield record

    monkeypatch.setattr(malformed_messages, "DurableState", Durable)
    monkeypatch.setattr(malformed_messages, "_MOST", 2)
    app = SimpleNamespace(engine=SimpleNamespace(topology=shop(INSPECTOR)), conf=APP.conf)
    made = await malformed_messages.replay_messages(app, "malformed")
    assert ([each.offset for each in made.sent], made.left) == ([0, 1], 1)
    assert (made.as_dict()["left"], str(made).splitlines()[-1]) == (
        1,
        "  1 more to send: give the command again",
    )
    *again, told = producer.committed
    assert [(each.topic, each.headers[-1][0]) for each in again] == [
        ("orders", malformed_messages.REPLAY)
    ] * 2
    assert orjson.loads(told.value or b"")["facts"] == {"offsets": [0, 1]}
