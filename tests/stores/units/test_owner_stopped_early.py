"""An owner that is stopped before it knows what is durable, and rows behind open transactions."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaConnectionError

from stores.units import ServerSettings, UnitError
from stores.units.client.owners import OwnerFollower
from stores.units.kafka import row_log
from stores.units.kafka.row_log import RowKey, restore_rows, row_key
from stores.units.server import owner as owner_module
from stores.units.server import partitions as partitions_module
from stores.units.server.owner import Owner
from stores.units.server.partitions import OwnedPartitions
from stores.units.server.transactions import transactional_id
from tests.stores.units.one_process import TOKEN, MemoryTransactions


async def test_an_owner_that_is_stopped_while_it_restores_writes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would write that nothing is complete, and all would be delivered again."""
    made = list[MemoryTransactions]()
    restoring = asyncio.Event()

    def transactions(*given: object) -> MemoryTransactions:
        made.append(MemoryTransactions(*given))
        return made[-1]

    async def restore(*_: object) -> dict[RowKey, Any]:
        restoring.set()
        await asyncio.sleep(60)
        return {}

    monkeypatch.setattr(owner_module, "OwnerTransactions", transactions)
    monkeypatch.setattr(owner_module, "restore_rows", restore)
    monkeypatch.setattr(partitions_module, "AIOKafkaConsumer", MagicMock())
    settings = ServerSettings("d", "g", {}, TOKEN)
    partitions = OwnedPartitions(settings, 1, {}, "", {})
    await partitions.on_partitions_assigned([TopicPartition("d", 0)])
    await restoring.wait()
    await partitions.on_partitions_assigned([])
    await asyncio.wait(partitions._ending)
    assert [each.committed for each in made] == [[]]


async def test_rows_behind_an_open_transaction_of_another_owner_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Subscribers share a topic of rows: what is stable ends where any of them is at work."""
    at = TopicPartition("d.units", 0)
    log = [
        SimpleNamespace(key=row_key("g", 0, ("position",)), value=b'{"position":%d}' % place)
        for place in (1, 2, 3)
    ]

    class Reader:
        """A log of which the last record is not stable until it was asked for."""

        def __init__(self, isolation_level: str) -> None:
            self.stable = len(log) if isolation_level == "read_uncommitted" else 2
            self.place = 0

        async def start(self) -> None: ...

        async def stop(self) -> None: ...

        def assign(self, _: object) -> None: ...

        async def seek_to_beginning(self, _: object) -> None: ...

        async def end_offsets(self, _: object) -> dict[TopicPartition, int]:
            return {at: self.stable}

        async def position(self, _: object) -> int:
            return self.place

        async def getmany(self, _: object, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
            found, self.place = log[self.place : self.stable], self.stable
            self.stable = len(log)
            return {at: found}

    def reader(_: object, isolation_level: str = "read_committed") -> Reader:
        return Reader(isolation_level)

    monkeypatch.setattr(row_log, "reader", reader)
    assert await restore_rows({}, "d", "g", 0, 0) == {("position",): {"position": 3}}


@pytest.mark.parametrize(
    ("row", "committed", "place"),
    [(None, None, 2), (None, 4, 4), (None, 99, 2), (3, 99, 3), (1, None, 2), (5, None, 5)],
)
async def test_an_owner_begins_where_it_left_off_and_where_the_topic_has_something(
    row: int | None, committed: int | None, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await sought(row, committed, monkeypatch)
    assert owner.queue.read_to == place


async def test_a_topic_that_was_made_anew_is_not_taken_for_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UnitError, match="made anew"):
        await sought(6, None, monkeypatch)


async def test_nor_one_that_has_grown_beyond_what_was_complete_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What came below the old position was never delivered, and nothing was said."""
    with pytest.raises(UnitError, match="not the one that is on record"):
        await sought(3, None, monkeypatch, topic="another")
    assert (await sought(3, None, monkeypatch, topic="this")).topic == "this"


async def sought(
    row: int | None,
    committed: int | None,
    monkeypatch: pytest.MonkeyPatch,
    topic: str | None = None,
) -> Owner:
    """An owner that begins on a topic with offsets 2 to 4. topic: whose id is on record."""
    monkeypatch.setattr(partitions_module, "topic_id", AsyncMock(return_value="this"))
    at = TopicPartition("d", 0)
    kafka = MagicMock(
        beginning_offsets=AsyncMock(return_value={at: 2}),
        end_offsets=AsyncMock(return_value={at: 5}),
        committed=AsyncMock(return_value=committed),
    )
    monkeypatch.setattr(owner_module, "OwnerTransactions", MemoryTransactions)
    monkeypatch.setattr(partitions_module, "AIOKafkaConsumer", MagicMock(return_value=kafka))
    settings = ServerSettings("d", "g", {}, TOKEN)
    owner = Owner(settings, 0, 0, {}, "")
    owner.position, owner.topic = row, topic
    await OwnedPartitions(settings, 1, {}, "", {})._seek(owner)
    return owner


def test_only_owners_of_the_same_member_for_the_same_subscriber_fence_each_other() -> None:
    ids = {
        transactional_id(*each)
        for each in (
            ("orders", "eu-billing", 0),
            ("orders-eu", "billing", 0),
            ("orders-eu", "b", 0),
        )
    }
    assert len(ids) == 3


async def test_an_owner_that_cannot_disconnect_makes_room_for_the_next_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(owner_module, "OwnerTransactions", MemoryTransactions)
    owner = Owner(ServerSettings("d", "g", {}, TOKEN), 0, 0, {}, "")
    stop = AsyncMock(side_effect=KafkaConnectionError)
    monkeypatch.setattr(owner._transactions, "stop", stop)
    await owner.stop(orderly=False)
    stop.assert_awaited_once()


async def test_who_follows_owners_asks_again_where_a_broker_does_not_know_the_rows_yet() -> None:
    place = TopicPartition("d.units", 0)
    known = iter([None, {0}, {0}])
    consumer = MagicMock(
        _client=AsyncMock(),
        partitions_for_topic=lambda _: next(known),
        offsets_for_times=AsyncMock(return_value={place: None}),
        end_offsets=AsyncMock(return_value={place: 7}),
    )
    await OwnerFollower({}, "d", "g")._begin(consumer)
    consumer.seek.assert_called_once_with(place, 7)
