"""A group's offsets: what its coordinator cannot tell now is waited for, and not taken for none."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import GroupLoadInProgressError, TopicAuthorizationFailedError
from aiokafka.protocol.commit import OffsetFetchResponse_v3
from aiokafka.structs import OffsetAndMetadata
from confluent_kafka.cimpl import NewTopic

from sequitur.local.home import ROOT
from stores import kafka_offsets
from stores.kafka_offsets import OffsetsUnstable, group_offsets
from tests.conftest import BrokerAddress, make_topics

PLACE, OTHER = TopicPartition("in", 0), TopicPartition("in", 1)
LOADING, AWAY, MOVED, UNSTABLE, FORBIDDEN = 14, 15, 16, 88, 29


def told(error: int = 0, *, of_partition: int = 0) -> Any:
    """What a coordinator answers; with an error it has no partitions."""
    topics = [] if error else [("in", [(0, 7, "noted", of_partition), (1, -1, "", 0)])]
    return OffsetFetchResponse_v3(0, topics, error)


class Admin:
    """Gives one answer after the other."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def find_coordinator(self, _: str) -> int:
        return 1

    async def _send_request(self, *_: object) -> Any:
        return self.answers.pop(0)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_offsets, "AGAIN", 0)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "answers",
    [[told(LOADING), told(MOVED), told(AWAY)], [told(of_partition=UNSTABLE)]],
    ids=["the coordinator", "a partition"],
)
async def test_a_coordinator_that_cannot_tell_them_yet_is_asked_again(answers: list[Any]) -> None:
    admin: Any = Admin(*answers, told())
    assert await group_offsets(admin, "g", [PLACE, OTHER]) == {PLACE: OffsetAndMetadata(7, "noted")}
    assert not admin.answers


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (told(LOADING), GroupLoadInProgressError),
        (told(of_partition=UNSTABLE), OffsetsUnstable),
        (told(of_partition=FORBIDDEN), TopicAuthorizationFailedError),
    ],
)
async def test_what_is_not_told_for_long_is_an_error(
    answer: Any, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_offsets, "PATIENCE", -1)
    admin: Any = Admin(answer)
    with pytest.raises(error):
        await group_offsets(admin, "g", [PLACE])


async def test_a_consumer_takes_no_error_for_a_group_without_offsets() -> None:
    """Or it would go on from the first message."""
    answers, dead = [told(MOVED), told(LOADING), told()], list[int]()

    async def send(*_: object, **__: object) -> Any:
        return answers.pop(0)

    async def known() -> None: ...

    found: Any = GroupCoordinator.__new__(GroupCoordinator)
    found.group_id, found.coordinator_id, found._retry_backoff_ms = "g", 1, 1
    found._client = SimpleNamespace(send=send)
    found.coordinator_dead, found.ensure_coordinator_known = lambda: dead.append(1), known
    assert await found.fetch_committed_offsets([PLACE]) == {PLACE: OffsetAndMetadata(7, "noted")}
    assert (answers, len(dead)) == ([], 1)


def test_nobody_asks_in_another_way() -> None:
    for folder in (ROOT / "topology", ROOT / "stores", ROOT / "apps" / "sequitur"):
        for path in folder.rglob("*.py"):
            asks = "admin.list_consumer_group_offsets(" in path.read_text()
            assert not asks or "confluent_kafka" in path.read_text(), path


@pytest.mark.integration
async def test_of_a_real_group(broker: BrokerAddress, unique: Callable[[str], str]) -> None:
    topic, group = unique("offsets"), unique("group")
    make_topics(broker.address, NewTopic(topic, 2, 1))
    places = [TopicPartition(topic, number) for number in range(2)]
    at = {"bootstrap_servers": broker.address}
    admin = AIOKafkaAdminClient(**at)
    producer = AIOKafkaProducer(**at, transactional_id=unique("producer"))
    await admin.start()
    await producer.start()
    try:
        assert await group_offsets(admin, group) == {}
        assert await group_offsets(admin, group, places, stable=True) == {}
        async with producer.transaction():
            await producer.send_offsets_to_transaction(
                {places[0]: OffsetAndMetadata(3, "noted")}, group
            )
            # Who asks only how far it is does not wait; who goes on from there does.
            assert await group_offsets(admin, group, places) == {}
            stable = asyncio.create_task(group_offsets(admin, group, places, stable=True))
            await asyncio.sleep(0.3)
            assert not stable.done()
        noted = {places[0]: OffsetAndMetadata(3, "noted")}
        assert await stable == noted
        assert await group_offsets(admin, group) == noted
    finally:
        await producer.stop()
        await admin.close()
