"""A transaction that does not end is given up, and said so."""

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaTimeoutError

from topology.engine.commit_unit import CommitUnit
from topology.faust.worker.writing import writer
from topology.faust.worker.writing.partitioning import Partitions
from topology.faust.worker.writing.writer import TransactionalWriter


async def test_a_transaction_that_does_not_end_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ensure(topic: str, wanted: int) -> int:
        return wanted

    async def never(*_: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(writer, "LONGEST", 0.01)
    config = {"bootstrap_servers": "127.0.0.1:1"}
    source = TopicPartition("in", 0)
    made = TransactionalWriter("group", source, config, {}, Partitions(ensure))
    monkeypatch.setattr(made._transaction, "begin", never)
    with pytest.raises(KafkaTimeoutError, match="is one of its topics gone"):
        await made.commit(CommitUnit("in", 0), source)
    made.producer._closed = True
