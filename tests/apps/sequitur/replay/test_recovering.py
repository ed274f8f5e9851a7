"""A group recovers from the replay server: in order, each message once, whatever is killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from confluent_kafka.cimpl import NewTopic

from sequitur.local.ports import HOST, free_port
from sequitur.replay.server.application import serve
from sequitur.replay.server.service import Service
from sequitur.replay.server.work import ReplayWork
from stores.db.engines import open_engine
from stores.replay import CapturedMessage, Query, ReplayLog
from stores.replay.recoveries import ROUTER, Recoveries
from stores.replay.recovering import RecoveringConsumer, RecoveryEnded, RecoveryRefused
from stores.replay.recovery_topics import RecoveryTopics
from stores.replay.replays import Replays
from stores.replay.republish import TRANSPORT, headers_of
from stores.segments.message import OutboundMessage
from stores.segments.transports.kafka import KafkaOutbound
from tests.conftest import BrokerAddress, make_topics
from tests.forked import context

pytestmark = pytest.mark.integration
TOKEN = "a-token-for-tests-0123456789"
EACH = 20


class Rules:
    """A router that sends all of one topic to another one."""

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target

    def of_sources(self, query: Query, captured: Any, wanted: Any) -> Query:
        return Query(topics=(self.source,))

    def __call__(self, replay: Any, message: CapturedMessage) -> list[OutboundMessage]:
        id = f"site/{self.source}/{message.partition}/{message.offset}/0"
        target = replay.targets[self.target]
        given = (target, message.value, message.key, headers_of(replay, message))
        return [OutboundMessage(TRANSPORT, *given, id=id)]


@asynccontextmanager
async def serving(
    kafka: dict[str, Any], path: Path, router: Rules | None = None
) -> AsyncIterator[tuple[str, ReplayLog]]:
    """A replay server on a real broker: its URL, and its log."""
    engine = open_engine(f"sqlite:///{path}/log.db")
    log = ReplayLog(engine)
    log.create()
    recoveries, topics = Recoveries(Replays(log)), RecoveryTopics(kafka)
    recoveries.create()
    stopped, port = asyncio.Event(), free_port()
    routes = Service(recoveries, topics, {}, router).routes()
    ways: dict[str, Any] = {} if router is None else {ROUTER: router}
    work = ReplayWork(recoveries, topics, lambda: KafkaOutbound(kafka, "r"), ways, "test")
    tasks = [
        asyncio.create_task(serve(routes, TOKEN, HOST, port, stopped, open_reading=True)),
        asyncio.create_task(work.run(stopped)),
    ]
    try:
        yield f"http://{HOST}:{port}", log
    finally:
        stopped.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 60)
        engine.dispose()


async def publish(
    kafka: dict[str, Any], topic: str, partition: int, numbers: Sequence[int], source: str = ""
) -> None:
    """Numbers, the ids being those of a router where there is a source."""
    async with AIOKafkaProducer(**kafka) as producer:
        for each in numbers:
            id = [("sequitur-id", f"site/{source}/0/{each}/0".encode())] if source else []
            await producer.send_and_wait(topic, b"%d" % each, None, partition, headers=id)


def capture(log: ReplayLog, topic: str, partitions: int, count: int) -> None:
    messages = [
        CapturedMessage(topic, number, at, b"%d" % at, site="site")
        for number in range(partitions)
        for at in range(count)
    ]
    log.append(topic, messages, dict.fromkeys(range(partitions), count))


async def handed(
    kafka: dict[str, Any], out: str, count: int, partitions: int
) -> list[list[tuple[str, int]]]:
    """What was sent to a topic of one partition, by the partition that it came from."""
    found: list[list[tuple[str, int]]] = [[] for _ in range(partitions)]
    async with AIOKafkaConsumer(
        out, **kafka, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as reader:
        async with asyncio.timeout(180):
            for _ in range(count):
                record = await reader.getone()
                name, partition, number = record.value.decode().split()
                found[int(partition)].append((name, int(number)))
        assert not await reader.getmany(timeout_ms=300), "more came"
    return found


async def send(batch: Any, out: str) -> None:
    name = "primary" if batch.recovery is None else "recovery"
    for record in batch.records:
        await batch.send(out, f"{name} {batch.partition} {record.value.decode()}".encode())


async def consume(
    consumer: RecoveringConsumer, out: str, enough: Callable[[str, int], bool]
) -> None:
    """Read until it is enough, which a batch's name and last number say; commit all of it."""
    async with asyncio.timeout(180):
        async for batch in consumer:
            await send(batch, out)
            await batch.commit()
            name = "primary" if batch.recovery is None else "recovery"
            if enough(name, int(batch.records[-1].value)):
                return


def of(name: str, numbers: Sequence[int]) -> list[tuple[str, int]]:
    return [(name, each) for each in numbers]


def child(kafka: dict[str, Any], names: tuple[str, str, str], url: str, story: str) -> None:
    asyncio.run(_child(kafka, names, url, story))


async def _child(kafka: dict[str, Any], names: tuple[str, str, str], url: str, story: str) -> None:
    """A consumer that is killed before or after a commit, on the primary or in the recovery."""
    topic, out, group = names
    where, when, at = story.split()
    async with RecoveringConsumer([topic], group, kafka, most=3, instance="one") as consumer:
        if where == "asking":
            await consume(consumer, out, lambda _, number: number >= 8)
            await consumer.recover(server=url, token=TOKEN)
        async for batch in consumer:
            await send(batch, out)
            name = "primary" if batch.recovery is None else "recovery"
            there = name == where or where == "asking"
            if there and int(batch.records[-1].value) >= int(at):
                if when == "before":
                    await asyncio.sleep(0.3)  # what it sent is there, and not committed
                else:
                    await batch.commit()
                os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def kafka(broker: BrokerAddress) -> dict[str, Any]:
    return {"bootstrap_servers": broker.address}


async def test_each_message_comes_once_though_the_consumer_is_killed_wherever_it_is(
    kafka: dict[str, Any], topic: Callable[..., str], unique: Callable[[str], str], tmp_path: Path
) -> None:
    names = topic("moves"), topic("out"), unique("group")
    await publish(kafka, names[0], 0, range(EACH))
    async with serving(kafka, tmp_path) as (url, log):
        capture(log, names[0], 1, EACH)
        stories = ["asking before 0", "recovery after 2", "recovery before 5", "primary before 12",
                   "primary after 19"]  # fmt: skip
        for story in stories:
            process = context.Process(target=child, args=(kafka, names, url, story))
            process.start()
            await asyncio.to_thread(process.join, 180)
            assert process.exitcode == -signal.SIGKILL, story
    (found,) = await handed(kafka, names[1], EACH + 9, 1)
    assert found == of("primary", range(9)) + of("recovery", range(9)) + of(
        "primary", range(9, EACH)
    )


async def test_a_batch_whose_consumer_was_taken_for_dead_meanwhile_comes_again(
    kafka: dict[str, Any], topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    name, out, group = topic("moves"), topic("out"), unique("group")
    await publish(kafka, name, 0, [0])
    async with asyncio.timeout(180), RecoveringConsumer([name], group, kafka) as consumer:
        batch = await anext(consumer)
        transactions: Any = batch._owned._producer._txn_manager
        async with AIOKafkaProducer(**kafka, transactional_id=transactions.transactional_id):
            pass  # the next owner, which has gone again
        while not transactions.is_fatal_error():
            await send(batch, out)
            await asyncio.sleep(0.01)
        await send(batch, out)
        await consume(consumer, out, lambda _, number: number == 0)
    assert await handed(kafka, out, 1, 1) == [of("primary", [0])]


async def test_who_is_cancelled_while_a_batch_is_committed_goes_on_with_what_was_not(
    kafka: dict[str, Any], topic: Callable[..., str], unique: Callable[[str], str]
) -> None:
    name, out, group, committed = topic("moves"), topic("out"), unique("group"), asyncio.Event()
    await publish(kafka, name, 0, range(2))
    async with (
        asyncio.timeout(180),
        RecoveringConsumer([name], group, kafka, most=1) as consumer,
    ):
        batch = await anext(consumer)
        await send(batch, out)
        producer: Any = batch._owned._producer
        commit = producer.commit_transaction

        async def is_slow_to_say_so() -> None:
            await commit()
            committed.set()
            await asyncio.Event().wait()

        producer.commit_transaction = is_slow_to_say_so
        committing = asyncio.create_task(batch.commit())
        await committed.wait()
        committing.cancel()
        await asyncio.wait([committing])
        await consume(consumer, out, lambda _, number: number == 1)
    assert await handed(kafka, out, 2, 1) == [of("primary", [0, 1])]


async def test_a_group_takes_part_as_a_whole_and_who_comes_later_goes_on_in_its_phase(
    kafka: dict[str, Any], topic: Callable[..., str], unique: Callable[[str], str], tmp_path: Path
) -> None:
    name, out, group = topic("moves", 2), topic("out"), unique("group")
    for number in (0, 1):
        await publish(kafka, name, number, range(10))
    async with serving(kafka, tmp_path) as (url, log):
        capture(log, name, 2, 10)
        first, second = (RecoveringConsumer([name], group, kafka, most=2) for _ in range(2))
        async with first, second:
            done = set[int]()

            async def work(consumer: RecoveringConsumer) -> None:
                async for batch in consumer:
                    await send(batch, out)
                    if batch.recovery is None and int(batch.records[-1].value) == EACH - 1:
                        done.add(batch.partition)

            tasks = [asyncio.create_task(work(each)) for each in (first, second)]
            async with asyncio.timeout(180):
                positions = await all_read(kafka, group, name, 10)
                assert positions == [10, 10]
                id = await first.recover(server=url, token=TOKEN, actor="ann", reason="lost")
                with pytest.raises(RecoveryRefused, match="under way"):
                    await second.recover(server=url, token=TOKEN)
                for number in (0, 1):
                    await publish(kafka, name, number, range(10, EACH))
                await second.recovered(id)
                while done != {0, 1} or first.recovering == id:
                    await asyncio.sleep(0.05)
                    for task in tasks:
                        assert not task.done(), task.exception()
            async with asyncio.timeout(180):
                while Recoveries(Replays(log)).newest()[0].closed is None:
                    await asyncio.sleep(0.1)
                # The last batches are committed as the next ones are asked for.
                await all_read(kafka, group, name, EACH)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        (recovery,) = Recoveries(Replays(log)).newest()
        assert recovery.closed is not None
        assert recovery.reason == "lost"
    assert await handed(kafka, out, 60, 2) == 2 * [
        of("primary", range(10)) + of("recovery", range(10)) + of("primary", range(10, EACH))
    ]


async def all_read(kafka: dict[str, Any], group: str, topic: str, count: int) -> list[int]:
    async with AIOKafkaConsumer(group_id=group, **kafka, enable_auto_commit=False) as asking:
        while True:
            at = [await asking.committed(TopicPartition(topic, n)) or 0 for n in (0, 1)]
            if min(at) >= count:
                return at
            await asyncio.sleep(0.1)


async def test_through_the_router_what_is_unread_comes_in_its_place_and_what_came_does_not_again(
    kafka: dict[str, Any], topic: Callable[..., str], unique: Callable[[str], str], tmp_path: Path
) -> None:
    source, name, out = topic("in"), topic("moves"), topic("out")
    await publish(kafka, source, 0, range(EACH))
    await publish(kafka, name, 0, range(10), source)  # the router is behind
    async with serving(kafka, tmp_path, Rules(source, name)) as (url, log):
        capture(log, source, 1, EACH)
        async with RecoveringConsumer([name], unique("group"), kafka, most=3) as consumer:
            await consume(consumer, out, lambda _, number: number >= 5)
            await consumer.recover(server=url, token=TOKEN, way="router", rules="now")
            await consume(consumer, out, lambda _, number: number == EACH - 1)
            await publish(kafka, name, 0, range(10, EACH + 3), source)
            await consume(consumer, out, lambda _, number: number == EACH + 2)
    (found,) = await handed(kafka, out, 6 + 6 + 4 + 10 + 3, 1)
    assert found == [
        *of("primary", range(6)),
        *of("recovery", range(6)),
        *of("primary", range(6, 10)),
        *of("recovery", range(10, EACH)),
        *of("primary", range(EACH, EACH + 3)),
    ]


async def test_a_recovery_that_is_refused_or_ended_loses_nothing(
    kafka: dict[str, Any],
    broker: BrokerAddress,
    topic: Callable[..., str],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    name, out, group = unique("moves"), topic("out"), unique("group")
    week = NewTopic(name, 1, 1, config={"retention.ms": "604800000"})
    make_topics(broker.address, week)
    await publish(kafka, name, 0, range(EACH))
    async with (
        serving(kafka, tmp_path) as (url, log),
        RecoveringConsumer([name], group, kafka, most=3) as consumer,
    ):
        await consume(consumer, out, lambda _, number: number >= 5)
        with pytest.raises(RecoveryRefused, match="is not captured"):
            await consumer.recover(server=url, token=TOKEN)
        with pytest.raises(RecoveryRefused, match="raise retention"):
            await consumer.recover(server=url, token=TOKEN, seconds=10**9)
        log.append(name, (), {0: 1}, lost={0: (0, 1)})
        with pytest.raises(RecoveryRefused, match=r"does not have all of it: .*offsets 0 to 0"):
            await consumer.recover(server=url, token=TOKEN)
        capture(log, name, 1, 2)
        # It waits for what is to be captured.
        closed = await consumer.recover(server=url, token=TOKEN, accept_loss=True)
        recovery = Recoveries(Replays(log)).newest()[0]
        Recoveries(Replays(log)).close(recovery.id, "ann", "no more")
        await consume(consumer, out, lambda _, number: number >= 8)
        assert consumer.recovering is None
        with pytest.raises(RecoveryEnded, match="closed: ann: no more"):
            await consumer.recovered(closed)
        capture(log, name, 1, EACH)
        # Of offset 0 nothing is asked.
        await consumer.recover(Query(offsets={name: {0: (2, None)}}), server=url, token=TOKEN)
        await consume(consumer, out, lambda where, _: where == "recovery")
        await consumer.cancel()
        await consume(consumer, out, lambda where, number: (where, number) == ("primary", 19))
    (found,) = await handed(kafka, out, 9 + 3 + 11, 1)
    assert found == of("primary", range(9)) + of("recovery", (2, 3, 4)) + of(
        "primary", range(9, 20)
    )
