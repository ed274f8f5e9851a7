"""Owner and consumer when time, connections or contents are not as one would like. No broker."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from stores.db.steady_clock import elapsed
from stores.units import DeliveryLost, SendRefused, UnitError, UnitProducer
from stores.units.kafka.row_log import RowKey
from stores.units.kafka.rows import row_json, row_value
from stores.units.queue import Filter, UnitMark, UnitMessage
from stores.units.server.transactions import Batch, Send
from stores.units.wire import PATH, packed
from tests.stores.units.one_process import OneMember, one_member
from topology.ordered_commit.offset_ranges import OffsetRanges

U = [("unit", b"u")]


async def test_a_message_that_the_consumer_gave_up_by_its_own_clock_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The owner's clock has not ended the lease yet, and goes on with the session."""
    async with one_member(monkeypatch, lease=15.0) as member:
        link, arrivals = member.link()
        member.arrive(b"1", headers=U)
        first = await arrivals.next()
        link._until = elapsed()
        with pytest.raises(DeliveryLost):
            await first.done()
        again = await arrivals.next()
        assert (again.value, again.redeliveries) == (b"1", 0)
        await again.done(durable=True)
        assert member.owner.queue.messages == 0


async def test_a_session_that_cannot_be_opened_keeps_nobody_from_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_member(monkeypatch) as member:
        for _ in range(2):
            with pytest.raises(UnitError, match="prefetch"):
                member.owner.join("bad", 5_000, Filter(), [], [], [])
        _, arrivals = member.link()
        member.arrive(b"1")
        assert (await arrivals.next()).value == b"1"


async def test_another_consumer_by_the_name_of_a_session_waits_for_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else both would work on what the session holds."""
    rows: dict[RowKey, Any] = {("session", "old"): {"since": 1.0, "consumer": "first"}}
    async with one_member(monkeypatch, rows) as member:
        owner = member.owner
        with pytest.raises(UnitError, match="a name of its own"):
            owner.join("old", 1, Filter(), [], [], [], "second")
        session, _ = owner.join("old", 1, Filter(), [], [], [], "first")
        with pytest.raises(UnitError, match="a name of its own"):
            owner.join("old", 1, Filter(), [], [], [], "second")
        owner.leave(session, complete=False)
        owner.join("old", 1, Filter(), [], [], [], "second")


async def test_a_redriven_message_that_a_former_session_holds_is_not_taken_for_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The position has passed it, as it was parked; else its commit ended, and nothing was sent."""
    rows: dict[RowKey, Any] = {
        ("position",): {"position": 1, "done": packed(OffsetRanges().encode()), "topic": None},
        ("session", "s"): {"since": 1.0},
        ("message", 0): row_json(UnitMessage(0, "u", content=b"1")),
    }
    async with one_member(monkeypatch, rows) as member:
        owner, frames = member.owner, list[tuple[str, dict[str, Any]]]()
        session, told = owner.join("s", 1, Filter(), [0], [], [])
        monkeypatch.setattr(session, "send", lambda kind, **given: frames.append((kind, given)))
        assert told["pending"]
        await owner.made_durable()
        ((kind, given),) = frames
        assert (kind, [each["o"] for each in given["d"]], given["gone"]) == ("rejoined", [0], [])
        assert owner.join("s", 1, Filter(), [0], [], [])[1]["gone"] == []
        owner.complete(session, list(session.held))
        assert owner.join("s", 1, Filter(), [], [0], [])[1]["gone"] == [0]


@contextmanager
def held_up_commits(member: OneMember, monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Event]:
    """The owner commits nothing more until this is set, at the end at the latest."""
    gate, commit = asyncio.Event(), member.owner._transactions.commit

    async def held_up(batch: Batch) -> float:
        await gate.wait()
        return await commit(batch)

    monkeypatch.setattr(member.owner._transactions, "commit", held_up)
    try:
        yield gate
    finally:
        gate.set()


@pytest.mark.parametrize("connected", [True, False])
async def test_a_commit_goes_on_when_its_delivery_is_rolled_back_meanwhile(
    connected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_member(monkeypatch) as member:
        link, arrivals = member.link(prefetch=2)
        member.arrive(b"1", b"2", headers=U)
        delivery, after = await arrivals.next(), await arrivals.next()
        with held_up_commits(member, monkeypatch):
            owners = dict(member._follower.owners)
            if not connected:
                member._follower.owners.clear()
                assert link._socket is not None
                await link._socket.close()
                async with asyncio.timeout(60):
                    while link._socket is not None:
                        await asyncio.sleep(0.01)
            committing = asyncio.create_task(link.commit([delivery], [{"topic": "out"}]))
            with pytest.raises(TimeoutError):
                async with delivery, asyncio.timeout(0.2):
                    await asyncio.shield(committing)
            await after.roll_back()
            assert (delivery.state, after.state) == ("held", "rolled back")
            member._follower.owners.update(owners)
        async with asyncio.timeout(60):
            await committing
        assert delivery.state == "done"
        again = await arrivals.next()
        assert (again.value, delivery.offset in link.held) == (b"2", False)
        assert [each.topic for batch in member.committed for each in batch.sends] == ["out"]


async def test_a_block_that_ends_while_its_delivery_is_committed_leaves_that_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_member(monkeypatch) as member:
        link, arrivals = member.link()
        member.arrive(b"1")
        delivery = await arrivals.next()
        with held_up_commits(member, monkeypatch):
            async with delivery:
                committing = asyncio.create_task(link.commit([delivery], []))
                while not link._committing:
                    await asyncio.sleep(0)
            durable = asyncio.create_task(delivery.done(durable=True))
            await asyncio.wait([durable], timeout=0.1)
            assert (durable.done(), delivery.state) == (False, "held")
        async with asyncio.timeout(60):
            await asyncio.gather(committing, durable)
        assert delivery.state == "done"


async def test_a_commit_of_what_the_owner_took_back_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """It told so before it heard of the commit, which it refuses then."""
    async with one_member(monkeypatch) as member:
        link, arrivals = member.link()
        member.arrive(b"1")
        delivery = await arrivals.next()
        session = member.owner.sessions["s"]
        member.owner.roll_back(session, list(session.held), 0.0, "", failed=False)
        async with asyncio.timeout(60):
            with pytest.raises(DeliveryLost, match="took it back"):
                await link.commit([delivery], [])
        assert (await arrivals.next()).value == b"1"


async def test_many_large_messages_arrive_in_frames_that_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_member(monkeypatch, lease=60.0) as member:
        member.arrive(*[bytes(4 << 20)] * 6)
        _, arrivals = member.link(prefetch=6)
        found = [await arrivals.next() for _ in range(6)]
        assert [each.offset for each in found] == list(range(6))


async def test_a_commit_that_no_frame_holds_is_refused_and_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_member(monkeypatch) as member:
        link, arrivals = member.link()
        member.arrive(b"1")
        delivery = await arrivals.next()
        many = [{"topic": "out", "v": "AAAA"}] * 1_001
        large = [{"topic": "out", "v": "A" * (1 << 20)}] * 9
        for sends in (many, large):
            with pytest.raises(SendRefused, match="commit more often"):
                await link.commit([delivery], sends)
        attributes = {"a": "x" * (1 << 20)}
        with pytest.raises(SendRefused, match="over 1 MB"):
            await link.commit([delivery], [{"topic": "out", "a": attributes}])
        with pytest.raises(SendRefused, match="1 to 249"):
            await link.commit([delivery], [{"topic": "out", "u": ""}])
        await link.commit([delivery], [{"topic": "out"}])
        sent = [each for batch in member.committed for each in batch.sends]
        assert [type(each) for each in sent] == [Send]


async def test_a_reason_in_odd_characters_rolls_back_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_member(monkeypatch) as member:
        _, arrivals = member.link()
        member.arrive(b"1")
        with pytest.raises(OSError, match="file"):
            async with await arrivals.next():
                raise OSError("file \udcff\x1b[2J")
        assert (await arrivals.next()).redeliveries == 1


async def test_work_that_was_cancelled_has_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with one_member(monkeypatch) as member:
        _, arrivals = member.link()
        member.arrive(b"1")

        async def work() -> None:
            async with await arrivals.next():
                began.set()
                await asyncio.sleep(60)

        began = asyncio.Event()
        task = asyncio.create_task(work())
        await began.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await arrivals.next()).redeliveries == 0


async def test_parked_messages_keep_marks_from_being_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is parked is below the position, and its result is still to come."""
    async with one_member(monkeypatch) as member:
        owner = member.owner
        member.arrive(b"0", b"1")
        member.arrive(b"2", headers=U)
        owner.queue.park("u", 0.0, "me")
        _, arrivals = member.link()
        await (await arrivals.next()).done()
        await (await arrivals.next()).done(durable=True)
        await owner.made_durable()
        assert (owner._committed, owner.durable_position) == (3, 2)
        owner.queue.redrive("u", 0.0, "me")
        await (await arrivals.next()).done(durable=True)
        await owner.made_durable()
        assert owner.durable_position == 3


async def test_what_administration_asked_for_is_answered_when_the_owner_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_member(monkeypatch) as member:
        owner, never = member.owner, asyncio.Event()
        monkeypatch.setattr(owner, "_commit", never.wait)
        waiting = asyncio.create_task(owner.made_durable())
        await asyncio.sleep(0)
        never.set()
        await owner.stop(orderly=False)
        async with asyncio.timeout(60):
            with pytest.raises(UnitError, match="look at the records"):
                await waiting


@pytest.mark.parametrize("name", ["", "x" * 250, 7, b"u", "a\nb"])
async def test_a_message_whose_naming_gives_no_name_is_ungrouped(
    name: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with one_member(monkeypatch, naming=lambda *_: name) as member:
        member.arrive(b"1")
        assert list(member.owner.queue.ungrouped()) == [0]


async def test_the_longest_lease_of_a_former_owner_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: dict[RowKey, Any] = {
        ("owner",): {"epoch": 4, "lease": 60.0},
        ("session", "old"): {"since": 1.0},
    }
    async with one_member(monkeypatch, rows, lease=0.5) as member:
        owner = member.owner
        await owner.made_durable()
        assert member.committed[0].rows[("owner",)]["lease"] == 60.0
        owner._fenced_former -= 30
        owner._end_leases()
        assert owner.succession.silent == {"old"}
        owner._fenced_former -= 31
        owner._end_leases()
        assert not owner.succession.silent


async def test_what_follows_an_expired_message_waits_until_that_is_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a new owner takes what was handed out for a proof that all before it was complete."""
    async with one_member(monkeypatch) as member:
        link, arrivals = member.link()
        member.arrive(b"0")
        await (await arrivals.next()).done(durable=True)
        gate, commit = asyncio.Event(), member.owner._transactions.commit

        async def held_up(batch: Batch) -> float:
            await gate.wait()
            return await commit(batch)

        monkeypatch.setattr(member.owner._transactions, "commit", held_up)
        await link.want()
        while not member.owner.sessions["s"].wants:
            await asyncio.sleep(0)
        member.arrive(b"old", headers=[*U, ("unit-expires", b"1")])
        member.arrive(b"new", headers=U)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not member.owner.sessions["s"].held
        gate.set()
        assert (await arrivals.next()).value == b"new"
        assert [d.message.content for each in member.committed for d in each.departures] == [b"old"]


async def test_it_reads_on_past_its_limit_to_what_former_sessions_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: dict[RowKey, Any] = {("session", "old"): {"since": 1.0}}
    async with one_member(monkeypatch, rows, messages=2) as member:
        owner = member.owner
        member.arrive(b"0", b"1")
        assert owner.full
        owner.join("old", 1, Filter(), [2], [], [])
        assert not owner.full
        member.arrive(b"2")
        await asyncio.sleep(0)
        assert owner.succession.over
        assert owner.full


async def test_what_was_returned_before_a_later_completion_is_durable_is_told_to_the_next_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_member(monkeypatch) as member:
        link, arrivals = member.link(prefetch=2)
        member.arrive(b"0", b"1", headers=U)
        first, second = await arrivals.next(), await arrivals.next()
        gate, commit = asyncio.Event(), member.owner._transactions.commit

        async def held_up(batch: Batch) -> float:
            await gate.wait()
            return await commit(batch)

        monkeypatch.setattr(member.owner._transactions, "commit", held_up)
        await second.done()
        await first.roll_back()
        assert link._returned == {0}
        gate.set()
        again = await arrivals.next()
        assert (again.offset, again.redeliveries) == (0, 1)
        assert not link._returned
        await again.done(durable=True)


async def test_status_lists_first_what_needs_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with one_member(monkeypatch) as member:
        queue = member.owner.queue
        for name in (b"a", b"b", b"c"):
            member.arrive(b"1", headers=[("unit", name)])
        member.arrive(b"alone", b"another")
        queue.park("c", 0.0, "me")
        queue.park(3, 0.0, "me")
        assert set(queue.listed(2)) == {"c", 3}
        assert queue.listed(4)[2:] == ["a", "b"]


def test_an_ungrouped_message_that_is_parked_stays_parked_under_the_next_owner() -> None:
    mark = UnitMark(parked=1.0, reason="it failed")
    assert row_value(("unit", 3), row_json(mark)) == (("unit", 3), mark)


@pytest.mark.parametrize(("content", "key"), [(b"1", b"\xff"), (None, None), (b"", b"")])
def test_a_parked_message_keeps_its_records_key_and_value(
    content: bytes | None, key: bytes | None
) -> None:
    message = UnitMessage(3, content=content, key=key)
    kept = orjson.loads(orjson.dumps(row_json(message)))
    assert row_value(("message", 3), kept) == (("message", 3), message)


async def test_an_owner_that_ends_while_it_is_greeted_is_looked_for_again() -> None:
    greeted = list[str]()

    async def ends(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        greeted.append((await socket.receive()).data)
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_get(PATH, ends)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        owner: Any = SimpleNamespace(epoch=1)
        member = OneMember(owner, str(server.make_url("/")), http)
        member.link()
        try:
            async with asyncio.timeout(60):
                while len(greeted) < 2:
                    await asyncio.sleep(0.01)
        finally:
            await member.end()


def test_a_filter_looks_at_attributes_of_any_name() -> None:
    admits = Filter.of(**{"cls": "x"}).admits
    assert admits(UnitMessage(0, attributes={"cls": "x"}))
    assert not admits(UnitMessage(0, attributes={"cls": "y"}))


async def test_a_producer_keeps_nothing_of_units_that_nobody_is_in() -> None:
    producer = UnitProducer("d", {})
    unit = producer.unit("u")
    assert producer.unit("u") is unit
    for number in range(100):
        producer.unit(f"passing-{number}")
    assert list(producer._units) == ["u"]
