"""The relay over HTTP: from a log to an inbox, at least once and in order, whatever is away."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from sqlalchemy import Engine, MetaData, Table, select
from sqlalchemy.exc import OperationalError

from sequitur.inbox.server import application
from sequitur.local.ports import HOST, free_port
from sequitur.relay.http_link import HttpLink
from sequitur.relay.leadership import RelayConfig
from sequitur.relay.link import Answer, SendResult
from sequitur.relay.relay import Relay
from stores.db.engines import open_engine
from stores.inbox.commands import counts, gaps
from stores.inbox.inbox import Inbox
from stores.locks.lease import Lease
from stores.message import Message
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft
from tests.apps.sequitur.relay.parts import TOKEN, running, serving, until
from tests.contracts.inbox.parts import consume, done, make_table, named

PACE = RelayConfig(page=50, poll=0.05, ask=0.1, retry=0.05)


@pytest.fixture
def source(engine: Engine) -> Engine:
    return engine


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/warehouse.sqlite")
    make_table(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def log() -> MessageLog:
    return MessageLog()


def append(engine: Engine, log: MessageLog, sequences: Sequence[int], stream: str = "a") -> None:
    with engine.begin() as connection:
        drafts = [Draft("orders", stream, "Placed", f"{stream}{n}".encode()) for n in sequences]
        Outbox(log).capture_many(connection, drafts)


def rest(engine: Engine, log: MessageLog) -> int:
    with engine.connect() as connection:
        return len(log.read_after(connection, limit=100_000).messages)


def served(inbox: Inbox, port: int, wrap: Any = None) -> AbstractAsyncContextManager[str]:
    app = application(inbox, TOKEN)
    if wrap is not None:
        app.middlewares.append(wrap)
    return serving(app, port)


def relaying(
    source: Engine, log: MessageLog, url: str, name: str = "one", **more: Any
) -> AbstractAsyncContextManager[Relay]:
    link = more.pop("link", None) or HttpLink("orders", url, TOKEN, acknowledged=60)
    lease = Lease(source, "relay orders", name, 60.0)
    return running(Relay(source, log, link, lease, config=PACE, **more))


async def test_what_is_captured_is_delivered_and_deleted(
    source: Engine, target: Engine, log: MessageLog
) -> None:
    inbox = Inbox(target)
    append(source, log, range(1, 121))
    async with served(inbox, free_port()) as url, relaying(source, log, url) as relay:
        append(source, log, range(1, 31), "b")
        await until(lambda: relay.moved.deleted == 150)
        assert rest(source, log) == 0
    came = consume(inbox)
    assert [each for each in came if each[0] == "a"] == named("a", range(1, 121))
    assert [each for each in came if each[0] == "b"] == named("b", range(1, 31))


async def test_an_inbox_that_is_away_gets_everything_when_it_is_back(
    source: Engine, target: Engine, log: MessageLog
) -> None:
    inbox, port = Inbox(target), free_port()
    append(source, log, range(1, 11))
    async with relaying(source, log, f"http://{HOST}:{port}") as relay:
        await until(lambda: relay.moved.again > 0)
        assert rest(source, log) == 10
        async with served(inbox, port):
            await until(lambda: rest(source, log) == 0)
    assert consume(inbox) == named("a", range(1, 11))


async def test_deletions_that_a_crash_of_the_database_takes_back_are_made_again(
    source: Engine, target: Engine, log: MessageLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the disk there; the messages are behind the reader's position then."""
    inbox, read_after = Inbox(target), log.read_after
    append(source, log, range(1, 11))
    messages = Table("sequitur_messages", MetaData(), autoload_with=source)
    with source.connect() as connection:
        rows = [dict(row) for row in connection.execute(select(messages)).mappings()]

    def crash(*arguments: Any) -> Any:
        monkeypatch.setattr(log, "read_after", read_after)
        raise OperationalError("SELECT", {}, ConnectionError("the server closed the connection"))

    async with served(inbox, free_port()) as url, relaying(source, log, url) as relay:
        await until(lambda: relay.moved.deleted == 10)
        with source.begin() as connection:
            connection.execute(messages.insert(), rows[3:5])
        monkeypatch.setattr(log, "read_after", crash)
        await until(lambda: relay.moved.deleted == 12)
    assert rest(source, log) == 0
    assert consume(inbox) == named("a", range(1, 11))


async def test_an_acknowledgement_that_is_lost_repeats_what_is_discarded(
    source: Engine, target: Engine, log: MessageLog
) -> None:
    inbox, lost = Inbox(target), [0]

    @web.middleware
    async def lose(request: web.Request, handler: Any) -> web.StreamResponse:
        response = await handler(request)
        if lost[0] < 3:
            lost[0] += 1
            assert request.transport is not None
            request.transport.close()
        return response  # type: ignore[no-any-return]

    append(source, log, range(1, 11))
    async with served(inbox, free_port(), lose) as url, relaying(source, log, url) as relay:
        await until(lambda: rest(source, log) == 0)
        assert relay.moved.again >= 10
    assert consume(inbox) == named("a", range(1, 11))
    assert counts(inbox).messages == 0


async def test_no_answer_in_time_is_none(source: Engine, target: Engine, log: MessageLog) -> None:
    inbox, slow = Inbox(target), [True]

    @web.middleware
    async def wait(request: web.Request, handler: Any) -> web.StreamResponse:
        if slow and slow.pop():
            await asyncio.sleep(4)
        return await handler(request)  # type: ignore[no-any-return]

    append(source, log, [1, 2])
    link = HttpLink("orders", "", TOKEN, acknowledged=2)
    async with served(inbox, free_port(), wait) as url:
        link._url = url
        async with relaying(source, log, url, link=link) as relay:
            await until(lambda: rest(source, log) == 0)
    assert relay.moved.again >= 2
    assert consume(inbox) == ["a1", "a2"]


async def test_refused_messages_come_again_and_hold_back_no_other_stream(
    source: Engine, target: Engine, log: MessageLog
) -> None:
    inbox = Inbox(target, max_gap=5)
    append(source, log, range(1, 11))
    append(source, log, range(1, 11), "b")
    with source.begin() as connection:
        # Out of the log as if it had been acknowledged, and the inbox had lost it.
        first = log.read_stream(connection, "orders", "a", 0, 1)
        log.delete(connection, [first[0].id])
    async with served(inbox, free_port()) as url, relaying(source, log, url) as relay:
        await until(lambda: rest(source, log) == 5)
        assert consume(inbox) == named("b", range(1, 11))
        assert [(gap.first, gap.last) for gap in gaps(inbox)] == [(1, 1)]
        await until(lambda: relay.moved.again > 5)
        with source.begin() as connection:
            log.declare_void(connection, "orders", "a", 1, 1, "for the test")
        await until(lambda: rest(source, log) == 0)
    assert consume(inbox) == named("a", range(2, 11))


async def test_what_is_missing_and_void_is_told_and_passed(
    source: Engine, target: Engine, log: MessageLog
) -> None:
    inbox = Inbox(target)
    append(source, log, range(1, 6))
    with source.begin() as connection:
        log.declare_void(connection, "orders", "a", 2, 3, "for the test")
    async with served(inbox, free_port()) as url, relaying(source, log, url):
        await until(lambda: counts(inbox).messages > 0 and not gaps(inbox))
    assert consume(inbox) == ["a1", "a4", "a5"]


async def test_what_is_kept_is_sent_again_to_who_lost_it(
    source: Engine, target: Engine, log: MessageLog, tmp_path: Path
) -> None:
    port = free_port()
    append(source, log, range(1, 6))
    async with relaying(source, log, f"http://{HOST}:{port}", keep=3600):
        async with served(Inbox(target), port):
            await until(lambda: rest(source, log) == 0)
        # Another consumer's database that never had the first five.
        other = open_engine(f"sqlite:///{tmp_path}/other.sqlite")
        make_table(other)
        inbox = Inbox(other)
        async with served(inbox, port):
            append(source, log, [6])
            await until(lambda: counts(inbox).messages == 6 and not gaps(inbox))
    assert consume(inbox) == named("a", range(1, 7))
    other.dispose()


async def test_of_two_relays_one_leads_and_the_other_takes_over(
    source: Engine, target: Engine, log: MessageLog
) -> None:
    inbox = Inbox(target)
    async with served(inbox, free_port()) as url:
        async with relaying(source, log, url, "one") as one:
            await until(one.leading.is_set)
            async with relaying(source, log, url, "two") as two:
                append(source, log, range(1, 6))
                await until(lambda: rest(source, log) == 0)
                assert not two.leading.is_set()
        async with relaying(source, log, url, "three") as three:
            # The first one let go when it ended, so nobody waits for its lease.
            await until(three.leading.is_set)
            append(source, log, range(6, 9))
            await until(lambda: rest(source, log) == 0)
    assert consume(inbox) == named("a", range(1, 9))


class _Stuck:
    """A link whose answers are held back until it is told to go on, as after a pause."""

    def __init__(self, url: str) -> None:
        self.go = asyncio.Event()
        self.delivered = asyncio.Event()
        self._link = HttpLink("orders", url, TOKEN)

    async def open(self, log: str = "") -> None:
        await self._link.open(log)

    async def send(self, messages: Sequence[Message], answers: Sequence[Answer] = ()) -> SendResult:
        result = await self._link.send(messages, answers)
        self.delivered.set()
        await self.go.wait()
        return result

    async def void(self, *_: Any) -> list[Answer]:
        return []

    async def close(self) -> None:
        await self._link.close()


async def test_a_relay_that_was_replaced_deletes_nothing_more(
    source: Engine, target: Engine, log: MessageLog
) -> None:
    inbox = Inbox(target)
    append(source, log, range(1, 6))
    async with served(inbox, free_port()) as url:
        stuck = _Stuck(url)
        async with relaying(source, log, url, link=stuck) as one:
            await until(stuck.delivered.is_set)
            # As if it had been stopped for longer than its lease.
            lease = Lease(source, "relay orders", "two")
            Lease(source, "relay orders", "one").release(1)
            assert lease.acquire() == 2
            stuck.go.set()
            await until(lambda: not one.leading.is_set())
            assert rest(source, log) == 5
            assert one.moved.deleted == 0
    assert consume(inbox) == named("a", range(1, 6))


async def test_a_token_is_needed_and_nonsense_is_refused(target: Engine) -> None:
    inbox = Inbox(target)
    async with served(inbox, free_port()) as url, aiohttp.ClientSession() as session:

        async def post(body: bytes, token: str = TOKEN) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.post(f"{url}/messages", data=body, headers=headers) as response:
                return response.status

        assert await post(b"{}", "another-token-0123456789") == 401
        async with session.get(f"{url}/health") as response:
            assert response.status == 200
        for nonsense in (
            b"",
            b"[]",
            b'{"messages": [{}]}',
            b'{"messages": [], "void": [["t", "s", 1, 99999999]]}',
            b'{"messages": [{"topic":"t","stream":"s","sequence":true,"kind":null,'
            b'"content":"","headers":{}}]}',
            b'{"messages": [{"topic":"t","stream":"s","sequence":1,"kind":null,'
            b'"content":"?","headers":{}}]}',
        ):
            assert await post(nonsense) == 400
    assert counts(inbox).messages == 0
    assert done(target) == []
