"""The leader of paths answers whatever becomes of a member, as long as somebody waits."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaTimeoutError

from stores.units.errors import MemberUnavailable
from stores.units.kafka.path_rows import LEADER, PathLeaderRow
from stores.units.kafka.row_log import read_to
from stores.units.paths import leader as leader_module
from stores.units.paths import watch
from stores.units.paths.leader import PathLeader
from stores.units.routing import PathEntry

DESTINATION = "d"


class Cluster:
    """Kafka as leader and watch use it: partitions, of which some are down."""

    def __init__(self, members: int) -> None:
        self.members, self.known = set(range(members)), set(range(members))
        self.down: set[int] = set()
        self.silent_rows = False
        self.sent: list[tuple[str, int | None]] = []
        self.leases: list[float] = []
        self.holds_commits: asyncio.Event | None = None
        self.asked: dict[str, Any] = {}

    def producer(self, **arguments: Any) -> Any:
        self.asked = arguments
        cluster = SimpleNamespace(available_partitions_for_topic=lambda _: set(self.known))
        return SimpleNamespace(
            start=self.nothing, stop=self.nothing, begin_transaction=self.nothing,
            commit_transaction=self.commit, partitions_for=self.partitions_for, send=self.send,
            client=SimpleNamespace(cluster=cluster),
        )  # fmt: skip

    def reader(self, *_: object) -> Any:
        return SimpleNamespace(
            start=self.nothing, stop=self.nothing, assign=lambda _: None,
            seek_to_beginning=self.nothing, end_offsets=self.end_offsets, getmany=self.getmany,
            position=self.position,
        )  # fmt: skip

    async def nothing(self) -> None: ...

    async def commit(self) -> None:
        if self.holds_commits is not None:
            await self.holds_commits.wait()

    async def partitions_for(self, _: str) -> set[int]:
        return set(self.known)

    async def position(self, _: object) -> int:
        return 0

    async def getmany(self, *_: object, **__: object) -> dict[Any, list[Any]]:
        await asyncio.sleep(0.01)
        return {}

    async def end_offsets(self, places: list[TopicPartition]) -> dict[TopicPartition, int]:
        rows = any(each.topic != DESTINATION for each in places)
        if self.silent_rows if rows else {each.partition for each in places} & self.down:
            raise KafkaTimeoutError("it does not answer")
        return dict.fromkeys(places, 0)

    async def send(self, topic: str, value: Any, *place: Any, **_: Any) -> Any:
        self.sent.append((topic, place[1]))
        if place[0] == LEADER:
            self.leases.append(orjson.loads(value)["lease"])
        done = asyncio.get_running_loop().create_future()
        if topic != DESTINATION or place[1] not in self.down:
            done.set_result(SimpleNamespace(offset=7))
        return done


@asynccontextmanager
async def leading(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    rows: dict[str, PathEntry] | None = None,
    lease: float = 0.0,
) -> AsyncIterator[PathLeader]:
    async def restored(*_: object) -> tuple[dict[str, PathEntry], PathLeaderRow]:
        return rows or {}, PathLeaderRow("", 0, lease)

    monkeypatch.setattr(watch, "LOOK", 0.02)
    monkeypatch.setattr(watch, "reader", cluster.reader)
    monkeypatch.setattr(leader_module, "AIOKafkaProducer", cluster.producer)
    monkeypatch.setattr(leader_module, "restore_paths", restored)
    found = PathLeader(DESTINATION, {}, 10.0, "http://h")
    running = asyncio.create_task(found.run())
    try:
        yield found
        assert not running.done(), "it leads on"
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.01)


async def routed(leader: PathLeader, unit: str, number: int) -> dict[str, Any]:
    async with asyncio.timeout(60):
        return await leader.ask(leader.renew("p", number, [], [unit], False))


async def test_a_member_that_went_down_unseen_holds_no_answers_and_gets_no_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(2)
    cluster.down = {1}  # Kafka's metadata has not heard of it
    unused = {f"u{each}": PathEntry(str(each), 1) for each in (0, 1)}
    async with leading(cluster, monkeypatch, unused) as leader:
        await until(lambda: (DESTINATION, 0) in cluster.sent)
        assert (await routed(leader, "u0", 1))["routes"] == {"u0": (0, 2)}
        assert "which is down" in (await routed(leader, "u1", 2))["refused"]["u1"][1]
        assert (DESTINATION, 1) not in cluster.sent
    assert cluster.asked["request_timeout_ms"] < 5_000, "and not half a lease of its producers"


async def test_the_next_leader_is_told_of_longer_leases_while_the_former_one_s_may_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(1)
    async with leading(cluster, monkeypatch, lease=30.0) as leader:
        await routed(leader, "u", 1)
        assert cluster.leases[-1] == 30.0
        leader._longest_until = 0.0
        await routed(leader, "v", 2)
        assert cluster.leases[-1] == 10.0


async def test_rows_that_are_down_keep_paths_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(2)
    cluster.silent_rows = True
    async with leading(cluster, monkeypatch, {"unused": PathEntry("0", 1)}) as leader:
        await asyncio.sleep(0.2)
        assert (await routed(leader, "u", 1))["routes"]["u"][0] == 1
        await leader.ask(leader.move("u", 0))
        leader.paths.close("p")
        await until(lambda: leader.paths.entries()["u"].member == "0")
        assert "unused" in leader.paths.entries()


async def test_a_leader_that_has_not_heard_of_new_partitions_keeps_the_paths_of_units_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(2)
    cluster.known = {0}
    async with leading(cluster, monkeypatch, {"u": PathEntry("1", 3, ("p",))}) as leader:
        assert "which is down" in (await routed(leader, "u", 1))["refused"]["u"][1]
        cluster.known = {0, 1}
        await until(lambda: "1" not in leader.paths._down)
        assert (await routed(leader, "u", 2))["routes"] == {"u": (1, 3)}


async def test_questions_that_nobody_waits_for_any_more_are_dropped_and_too_many_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(1)
    monkeypatch.setattr(leader_module, "QUESTIONS", 3)
    async with leading(cluster, monkeypatch) as leader:
        await routed(leader, "u", 1)
        cluster.holds_commits = asyncio.Event()
        asking = [asyncio.create_task(routed(leader, "u", 2 + each)) for each in range(5)]
        with monkeypatch.context() as impatient:
            impatient.setattr(leader_module, "ASKED", 0.1)
            answers = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(each, MemberUnavailable) for each in answers)
        assert leader._asked == []
        cluster.holds_commits.set()
        assert (await routed(leader, "u", 9))["held"]


async def test_a_path_of_many_producers_may_be_larger_than_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(1)
    async with leading(cluster, monkeypatch):
        assert cluster.asked["max_request_size"] > 30 << 20


async def test_a_partition_whose_broker_is_away_is_not_read_for_ever() -> None:
    consumer: Any = Cluster(1).reader()
    with pytest.raises(KafkaTimeoutError, match="d/0 cannot be read"):
        async for _ in read_to(consumer, TopicPartition("d", 0), 5, 0.05):
            pass

    async def unknown(_: object) -> int:
        await asyncio.sleep(3600)
        return 0

    consumer.position = unknown
    with pytest.raises(KafkaTimeoutError, match="d/0 cannot be read"):
        async for _ in read_to(consumer, TopicPartition("d", 0), 5, 0.05):
            pass
