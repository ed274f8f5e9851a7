"""A transaction that begins ahead: where units follow each other closely, and for a while only."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from topology.faust.worker.writing import standing_transaction
from topology.faust.worker.writing.standing_transaction import StandingTransaction

OUT = TopicPartition("out", 0)


class Broker:
    """Answers what the producer's transactions ask for, at once, and notes it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.fences = False
        self.producer = producer = AIOKafkaProducer(
            bootstrap_servers="127.0.0.1:1", transactional_id="t"
        )
        producer._closed = True
        self.transactions: Any = producer._txn_manager
        self.transactions.set_pid_and_epoch(1, 0)
        monkeypatch.setattr(producer._sender, "_do_add_offsets_to_txn", self.add_offsets)
        monkeypatch.setattr(producer, "commit_transaction", self.commit)
        monkeypatch.setattr(producer, "abort_transaction", self.abort)
        self.transaction = StandingTransaction(producer, "group")

    async def add_offsets(self, group: str) -> bool:
        self.asked.append("join")
        await asyncio.sleep(0)
        if self.fences:
            raise ProducerFenced
        self.transactions.consumer_group_added(group)
        return len(self.asked) % 2 == 0  # what has to be asked again is asked again

    async def commit(self) -> None:
        self.asked.append("commit")
        self.transactions.committing_transaction()
        self.transactions.complete_transaction()

    async def abort(self) -> None:
        self.asked.append("abort")
        for partition in list(self.transactions.partitions_to_add()):
            self.transactions.partition_added(partition)
        self.transactions.aborting_transaction()
        self.transactions.complete_transaction()

    async def unit(self, *, writes: bool = True) -> bool:
        """A unit as a writer commits it. Returns whether its transaction stood already."""
        stood: bool = self.transactions.is_in_transaction()
        await self.transaction.begin()
        if writes:
            self.transactions.maybe_add_partition_to_txn(OUT)
        for partition in list(self.transactions.partitions_to_add()):
            self.transactions.partition_added(partition)
        await self.transaction.join()
        await self.transaction.commit()
        return stood


@pytest.fixture
async def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    """Of a producer whose units follow each other closely."""
    monkeypatch.setattr(standing_transaction, "CLOSELY", 1e9)
    monkeypatch.setattr(standing_transaction, "KEPT", 3600.0)
    return Broker(monkeypatch)


async def test_a_transaction_stands_where_units_follow_each_other_closely(broker: Broker) -> None:
    assert [await broker.unit() for _ in range(4)] == [False, True, True, True]
    assert await broker.unit(writes=False)
    await broker.transaction.stop()


async def test_none_stands_behind_a_unit_that_came_alone_or_wrote_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_transaction, "CLOSELY", 0.0)
    assert [await broker.unit() for _ in range(3)] == [False, False, False]
    monkeypatch.setattr(standing_transaction, "CLOSELY", 1e9)
    assert not await broker.unit(writes=False)
    assert not await broker.unit(writes=False)


async def test_one_that_is_not_taken_is_aborted_and_the_next_unit_begins_anew(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing_transaction, "KEPT", 0.0)
    await broker.unit()
    while broker.transactions.is_in_transaction():
        await asyncio.sleep(0)
    assert broker.asked[-1] == "abort"
    assert not await broker.unit()
    await broker.transaction.stop()


async def test_who_is_fenced_meanwhile_hears_of_it_with_the_next_unit(broker: Broker) -> None:
    await broker.unit()
    broker.fences = True
    with pytest.raises(ProducerFenced):
        await broker.unit()
    await broker.transaction.stop()
