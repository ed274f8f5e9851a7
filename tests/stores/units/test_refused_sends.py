"""What a topic refuses of a transacted consumer: its input is not complete without it."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import MessageSizeTooLargeError

from stores.units.kafka.records import OutgoingMessage
from stores.units.server.settings import ServerSettings
from stores.units.server.transactions import Batch, OwnerTransactions, Send


class _Producer:
    """Refuses every record, as a topic with a small `max.message.bytes` does."""

    def __init__(self, **_: Any) -> None:
        self.committed = False

    async def begin_transaction(self) -> None:
        pass

    async def send(self, *_: Any, **__: Any) -> asyncio.Future[None]:
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        refused.set_exception(MessageSizeTooLargeError())
        return refused

    async def commit_transaction(self) -> None:
        self.committed = True


async def test_nothing_is_complete_whose_result_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stores.units.server.transactions.AIOKafkaProducer", _Producer)
    settings = ServerSettings("orders", "shop", {}, "a-token-of-some-length")
    transactions = OwnerTransactions(settings, 0, 0, {"out": 1})
    batch = Batch(sends=[Send("out", OutgoingMessage(b"large"), None)], commits=True)
    with pytest.raises(MessageSizeTooLargeError):
        await transactions.commit(batch)
    producer: Any = transactions._producer
    assert not producer.committed
