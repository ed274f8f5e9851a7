"""What an owner does while there is much, or somebody else, or less than there was."""

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from aiokafka import TopicPartition
from aiokafka.consumer import fetcher
from aiokafka.errors import ProducerFenced

import stores.kafka_records
from stores.db.steady_clock import elapsed
from stores.units import ServerSettings
from stores.units.kafka.row_log import OWNER, SESSION
from stores.units.queue import EVERY, Delivery
from stores.units.server import owner as owner_module
from stores.units.server import partitions as partitions_module
from stores.units.server.owner import Owner
from stores.units.server.partitions import OwnedPartitions
from stores.units.server.transactions import Batch
from tests.stores.units.one_process import TOKEN, MemoryTransactions, one_member

SETTINGS = ServerSettings("d", "g", {}, TOKEN)


def test_who_reads_a_destination_goes_on_behind_a_header_name_that_is_not_utf8() -> None:
    """Servers of library users too; what goes on is tested where the engine's reader is."""
    found: Any = fetcher.PartitionRecords
    made = found(None, MagicMock(), None, 0, None, None, False, 1)
    assert isinstance(made, stores.kafka_records.TolerantRecords)


@pytest.mark.parametrize(("first", "told"), [(0, False), (5, False), (6, True), (9, True)])
async def test_what_retention_deletes_ahead_of_a_running_owner_is_told(
    first: int, told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at = TopicPartition("d", 0)
    record = SimpleNamespace(offset=9, value=b"", key=None, headers=(), timestamp=0)
    kafka = MagicMock(
        getmany=AsyncMock(return_value={at: [record]}),
        assignment=lambda: {at},
        paused=set,
        beginning_offsets=AsyncMock(return_value={at: first}),
    )
    monkeypatch.setattr(partitions_module, "AIOKafkaConsumer", lambda **_: kafka)
    monkeypatch.setattr(owner_module, "OwnerTransactions", MemoryTransactions)
    owner = Owner(SETTINGS, 0, 0, {}, "")
    owner.queue.nothing_below(5)
    await OwnedPartitions(SETTINGS, 1, {}, "", {0: owner})._read()
    assert owner.queue.read_to == 10
    assert ("retention has deleted" in caplog.text) is told


async def test_a_server_that_is_fenced_again_and_again_begins_less_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else two that both take a member for theirs fence each other once a second."""
    pauses = list[float]()
    released = asyncio.Event()

    async def pause(waiting: Any, seconds: float) -> None:
        waiting.close()
        pauses.append(seconds)
        if len(pauses) == 11:
            partitions._tasks.clear()
            released.set()
        if len(pauses) != 8:  # then the member is assigned anew
            raise TimeoutError

    monkeypatch.setattr(partitions_module, "AIOKafkaConsumer", MagicMock())
    monkeypatch.setattr(
        partitions_module, "Owner",
        lambda *_: MagicMock(start=AsyncMock(side_effect=ProducerFenced()), stop=AsyncMock()),
    )  # fmt: skip
    monkeypatch.setattr(partitions_module, "asyncio", _Asyncio(pause))
    partitions = OwnedPartitions(SETTINGS, 1, {}, "", {})
    await partitions.on_partitions_assigned([TopicPartition("d", 0)])
    async with asyncio.timeout(60):
        await released.wait()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 1, 2, 4]


class _Asyncio:
    """asyncio with a `wait_for` of the test's."""

    def __init__(self, wait_for: Any) -> None:
        self.wait_for = wait_for

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


async def test_a_not_before_counts_from_when_the_message_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its longest wait would begin anew with each owner."""
    async with one_member(monkeypatch) as member:
        wait = member.owner.settings.queue.longest_wait
        sent = time.time() - wait - 60
        late = [("unit", b"u"), ("unit-not-before", b"1e18")]
        member.arrive(b"sent long ago", headers=late, timestamp=round(sent * 1000))
        _, arrivals = member.link()
        assert (await arrivals.next()).value == b"sent long ago"
        member.arrive(b"now", headers=late, timestamp=round(time.time() * 1000))
        assert member.owner.queue.status("u").state != "ready"


async def test_a_session_gets_nothing_while_too_much_of_it_is_not_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its next `hello` would be longer than a frame may be, and refused."""
    monkeypatch.setattr(owner_module, "MOST_UNSETTLED", 1)
    async with one_member(monkeypatch) as member:
        _, arrivals = member.link()
        member.arrive(b"0", b"1", b"2", b"3")
        await (await arrivals.next()).done(durable=True)
        gate, commit = asyncio.Event(), member.owner._transactions.commit

        async def held_up(batch: Batch) -> float:
            await gate.wait()
            return await commit(batch)

        monkeypatch.setattr(member.owner._transactions, "commit", held_up)
        for _ in range(2):
            await (await arrivals.next()).done()
        assert arrivals.link is not None
        await arrivals.link.want()
        await asyncio.sleep(0.05)
        assert not member.owner.sessions["s"].held
        gate.set()
        assert (await arrivals.next()).value == b"3"


async def test_idle_sessions_are_not_asked_while_nothing_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_member(monkeypatch) as member:
        links = [member.link(f"s{each}")[0] for each in range(20)]
        async with asyncio.timeout(60):
            while sum(each.wants for each in member.owner.sessions.values()) < len(links):
                await asyncio.gather(*(each.want() for each in links))
                await asyncio.sleep(0.01)
        asked, ask = list[str](), member.owner.queue.next

        def counted(session: str, now: float) -> list[Delivery]:
            asked.append(session)
            return ask(session, now)

        monkeypatch.setattr(member.owner.queue, "next", counted)
        member.owner.tick()
        await asyncio.sleep(0.01)
        assert asked == []
        member.arrive(b"0")
        async with asyncio.timeout(60):
            while not asked:
                await asyncio.sleep(0)
        assert len(asked) == 1


async def test_ranges_are_copied_for_a_commit_and_not_for_each_tick(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with one_member(monkeypatch) as member:
        _, arrivals = member.link(prefetch=3)
        member.arrive(b"0", b"1", b"2")
        await arrivals.next()
        second = await arrivals.next()
        member.owner._take_changes(0.0)
        changes = member.owner._batch.changes
        assert changes is not None
        assert changes.done is member.owner.queue._ledger.done
        await second.done(durable=True)
        written = member.committed[-1].changes
        assert written is not None
        assert list(written.done) == [(1, 2)]
        assert written.done is not member.owner.queue._ledger.done


async def test_a_shorter_lease_counts_when_the_former_one_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cut off once it has told, a consumer works on for as long as the former owner granted."""
    rows: dict[Any, Any] = {(OWNER,): {"epoch": 3, "lease": 30.0}, (SESSION, "a"): {"since": 0}}
    async with one_member(monkeypatch, rows, lease=5.0) as member:
        owner = member.owner
        session, answer = owner.join("a", 1, EVERY, [], [], [])
        assert (answer["pending"], answer["lease"] <= 5.0) == (True, True)
        assert session.granted == owner._former_leases_end > elapsed() + 20
        async with asyncio.timeout(60):
            while not owner.succession.over:
                await asyncio.sleep(0.01)
        assert owner._longest_lease == 30.0, "which the next owner is told"
        monkeypatch.setattr(owner, "_fenced_former", elapsed() - 31)
        assert owner._longest_lease == 5.0
