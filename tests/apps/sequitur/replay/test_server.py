"""The replay server: what it describes is what it takes and gives, and it has limits."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from aiohttp import ClientSession
from sqlalchemy import event as sql_event
from sqlalchemy import update
from sqlalchemy.exc import OperationalError

from sequitur.local.ports import HOST, free_port
from sequitur.replay.server.application import application, serve
from sequitur.replay.server.service import Service
from sequitur.replay.server.work import ReplayWork
from sequitur.route.loading import load_rules
from sequitur.route.replay_way import RouterWay, registered
from sequitur.route.unit_routing import UnitRouting
from stores.db.engines import open_engine
from stores.replay import CapturedMessage, Query, ReplayLog
from stores.replay.errors import ReplayError
from stores.replay.recoveries import RECOVERIES, ROUTER, Recoveries, Recovery
from stores.replay.recovering.replay_server import ReplayServer
from stores.replay.recovery_topics import RecoveryTopics
from stores.replay.replays import ReplayRequest, Replays
from stores.replay.retention import Hole
from stores.segments import InboundMessage, OutboundBatch
from stores.segments.identity import identify, numbered
from tests.apps.sequitur.replay.described import DescribedClient, problems
from tests.stores.replay.sample import FIELDS, messages
from tests.stores.replay.test_replaying import Broker
from topology.routing import Endpoint

TOKEN = "a-token-for-tests-0123456789"
WHO = {"actor": "ann", "reason": "a test"}
QUERY = {"topics": ["moves"], "sequences": [5, None]}


class Topics(RecoveryTopics):
    """Kafka's topics, in memory."""

    def __init__(self, broker: Broker, ends: dict[str, dict[int, int]]) -> None:
        super().__init__({})
        self.broker, self._ends = broker, ends
        self.there: set[tuple[str, int]] = set()
        self.begins: dict[tuple[str, int], int] = {}

    async def ends(self, topics: Iterable[str]) -> dict[str, dict[int, int]]:
        if unknown := [each for each in topics if each not in self._ends]:
            raise ReplayError(f"there is no topic {unknown[0]!r}")
        return {each: self._ends[each] for each in topics}

    async def uncaptured(self, waits: Sequence[tuple[str, int, int, int]]) -> list[Hole] | None:
        if any(each[:2] in self.there for each in waits):
            return None
        return [
            Hole(topic, number, low, self.begins[topic, number] - 1, 0, 0)
            for topic, number, low, _ in waits
            if self.begins.get((topic, number), 0) > low
        ]

    async def make(self, recovery: Recovery) -> None:
        for topic, there in recovery.topics.items():
            self.broker.partitions[there] = recovery.partitions[topic]

    async def delete(self, recovery: Recovery) -> None:
        for there in recovery.topics.values():
            self.broker.partitions.pop(there, None)


class FullBroker(Broker):
    """Takes so many messages, and has whoever brings more wait."""

    def __init__(self, room: float) -> None:
        super().__init__()
        self.room = room

    async def publish(self, batch: OutboundBatch) -> None:
        while len(self.got) >= self.room:
            await asyncio.sleep(0.01)
        await super().publish(batch)


@dataclass
class Server:
    client: DescribedClient
    session: ClientSession
    url: str
    broker: Broker
    topics: Topics
    log: ReplayLog
    recoveries: Recoveries
    routes: Any = field(default=None)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ReplayLog]:
    engine = open_engine(f"sqlite:///{tmp_path}/log.db")
    log = ReplayLog(engine, FIELDS)
    log.create()
    log.append("moves", messages(25), {0: 241, 1: 221, 2: 231})
    yield log
    engine.dispose()


@asynccontextmanager
async def serving(
    log: ReplayLog,
    *,
    open_reading: bool = True,
    router: RouterWay | None = None,
    query_seconds: float = 30.0,
    broker: Broker | None = None,
) -> AsyncIterator[Server]:
    stopped, port, broker = asyncio.Event(), free_port(), broker or Broker()
    recoveries = Recoveries(Replays(log))
    recoveries.create()
    topics = Topics(
        broker,
        {
            "moves": {0: 241, 1: 221, 2: 231},
            "gates": {0: 5},
            "gates.screen": {0: 0},
            "new": {0: 0},
            "in": {0: 99},
        },
    )
    service = Service(recoveries, topics, {"board": ["moves"]}, router, query_seconds)
    routes = service.routes()
    ways = {} if router is None else {ROUTER: router}
    work = ReplayWork(recoveries, topics, lambda: broker, ways, "test", look=0.02)
    tasks = [
        asyncio.create_task(serve(routes, TOKEN, HOST, port, stopped, open_reading=open_reading)),
        asyncio.create_task(work.run(stopped)),
    ]
    async with ClientSession() as session:
        client = DescribedClient(session, url := f"http://{HOST}:{port}", TOKEN)
        await client.learn()
        try:
            yield Server(client, session, url, broker, topics, log, recoveries, routes)
        finally:
            stopped.set()
            await asyncio.wait_for(asyncio.gather(*tasks), 120)


async def until(ask: Callable[[], Any], state: str) -> Any:
    while (found := await ask())["state"] != state:
        assert found["state"] in ("running", "waiting"), found
        await asyncio.sleep(0.02)
    return found


async def test_every_operation_does_what_its_description_says(log: ReplayLog) -> None:
    strange = CapturedMessage("moves", 0, 999, b"\xff", key=None, headers=(("h", b"\xfe"),))
    log.append("moves", [strange], {0: 1000})
    async with serving(log) as server:
        call = server.client.call
        about = await call("log")
        assert (about["end"], about["topics"]["moves"]["0"]) == (26, 1000)
        assert about["fields"] == {"tail": "text", "delay": "integer", "share": "number"}
        assert await call("count", {"query": QUERY}) == {
            "messages": 20, "through": 26, "gone": []
        }  # fmt: skip
        where = {"where": [["delay", ">=", 20], ["tail", "^=", "N2"]]}
        page = await call("page", {"query": where, "limit": 3})
        assert [each["sequence"] for each in page["messages"]] == [20, 21, 22]
        rest = await call("page", {"query": {**where, "after": page["after"]}, "content": False})
        assert [each["value"] for each in rest["messages"]] == [None, None]
        assert (await call("message", id="26"))["value"] == {"hex": "ff"}
        made = await call("preview", {"query": QUERY, "to": {"moves": "again"}, **WHO})
        assert (made["state"], made["messages"], made["query"]["through"]) == ("previewed", 20, 26)
        assert server.broker.got == []
        await call("start", WHO, id=made["id"])
        done = await until(lambda: call("replay", id=made["id"]), "done")
        assert (done["done"], len(server.broker.got)) == (20, 20)
        history = [(each["action"], each["actor"]) for each in done["actions"]]
        assert history == [("preview", "ann"), ("start", "ann"), ("finish", "server")]
        slow = {"query": QUERY, "to": {"*": "again"}, "rate": 0.01, **WHO}
        two = (await call("preview", slow))["id"]
        await call("start", WHO, id=two)
        assert (await call("pause", WHO, id=two))["state"] == "paused"
        assert (await call("resume", {**WHO, "refused": "skip"}, id=two))["refused"] == "skip"
        assert (await call("cancel", WHO, id=two))["state"] == "cancelled"
        assert "it has ended" in (await call("start", WHO, id=two, status=409))["error"]
        listed = await call("replays", {"state": "done", "limit": 5})
        assert [each["id"] for each in listed["replays"]] == [made["id"]]
        recovery = (await call("recover", {"application": "board", **WHO}))["id"]
        found = await until(lambda: call("recovery", id=recovery), "done")
        assert found["topics"] == {"moves": f"moves.recovery.{recovery}"}
        assert [each["id"] for each in (await call("recoveries"))["recoveries"]] == [recovery]
        named = {"application": "board", **WHO}
        for _ in (1, 2):  # an answer that is lost
            assert (await call("recoverAs", named, id="0123456789ab"))["id"] == "0123456789ab"
        error = (await call("recoverAs", named, id="x y", status=400))["error"]
        assert error.startswith("id 'x y': name it by 12")
        assert len((await call("recoveries"))["recoveries"]) == 2
        assert (await call("close", WHO, id=recovery))["state"] == "closed"
        while f"moves.recovery.{recovery}" in server.broker.partitions:
            await asyncio.sleep(0.01)
        assert server.client.called == set(server.client.operations)
        described = {(method, path) for method, path, _ in server.client.operations.values()}
        app = application(server.routes, TOKEN, open_reading=True)
        served = {
            (each.method.lower(), each.resource.canonical)
            for each in app.router.routes()
            if each.resource is not None and each.method != "HEAD"
        }
        assert served - described == {("get", "/health"), ("get", "/openapi.json")}


async def test_what_was_paused_running_or_cancelled_is_so_when_the_server_is_there_again(
    log: ReplayLog,
) -> None:
    broker, asked = FullBroker(5), {"query": QUERY, "to": {"*": "again"}, **WHO}
    async with serving(log, broker=broker) as server:
        call = server.client.call
        paused, running, cancelled = [
            (await call("preview", {**asked, "rate": rate}))["id"] for rate in (8, 8, 0.1)
        ]
        for id in (paused, running, cancelled):
            await call("start", WHO, id=id)
        while len(broker.got) < 5:
            await asyncio.sleep(0.01)
        await call("pause", WHO, id=paused)
        await call("cancel", WHO, id=cancelled)
    broker.room = math.inf
    async with serving(log, broker=broker) as server:
        call = server.client.call
        await until(lambda: call("replay", id=running), "done")
        assert (await call("replay", id=cancelled))["state"] == "cancelled"
        found = await call("replay", id=paused)
        assert found["state"] == "paused"
        assert found["done"] < 20
        await call("resume", WHO, id=paused)
        await until(lambda: call("replay", id=paused), "done")
    for id in (paused, running):
        mine = [each for each in broker.got if dict(each.headers)["sequitur-replay"] == id.encode()]
        assert [each.value for each in mine] == [b'{"n": %d}' % n for n in range(5, 25)]


async def test_a_recovery_is_what_is_before_the_consumers_positions_with_an_end_in_each_partition(
    log: ReplayLog,
) -> None:
    async with serving(log) as server:
        call = server.client.call
        positions = {"moves": {"0": 100, "1": 221, "2": 0}}
        asked = {"topics": ["moves"], "positions": positions, "query": QUERY, **WHO}
        id = (await call("recover", asked))["id"]
        await until(lambda: call("recovery", id=id), "done")
        *got, one, two, three = server.broker.got
        assert {each.destination for each in server.broker.got} == {f"moves.recovery.{id}"}
        assert [int(each.id.rsplit("/", 1)[1]) for each in got] == [
            10 * n for n in range(5, 25) if (n % 3 == 0 and n < 10) or n % 3 == 1
        ]
        for number, mark in enumerate((one, two, three)):
            assert mark.headers == (("sequitur-recovery-end", id.encode()),)
            assert mark.partition == number
        # Nothing was ever captured of a topic that has nothing.
        id = (await call("recover", {"topics": ["new"], **WHO}))["id"]
        assert (await until(lambda: call("recovery", id=id), "done"))["messages"] == 0
        # What is not captured yet is waited for; what Kafka does not have is not.
        server.topics._ends["moves"] = {0: 300, 1: 300, 2: 231}
        server.topics.there.add(("moves", 0))
        id = (await call("recover", {"topics": ["moves"], **WHO}))["id"]
        found = await call("recovery", id=id)
        assert found["why"].startswith("it waits for moves/0, captured up to 241 of 300; moves/1")
        server.log.append("moves", messages(1, partition=0, offset=299), {0: 300})
        found = await until(lambda: call("recovery", id=id), "done")
        assert (found["messages"], found["gone"]) == (26, [])


async def test_a_recovery_names_what_is_gone_of_what_was_asked_for(log: ReplayLog) -> None:
    # At the log's end, where a query up to the last id would not find it.
    log.append("moves", (), {0: 260}, lost={0: (241, 260)})
    log.append("moves", (), {2: 400}, lost={2: (300, 400)})
    async with serving(log) as server:
        call = server.client.call
        server.topics._ends["moves"] = {0: 300, 1: 300, 2: 231}
        server.topics.begins["moves", 1] = 280
        server.topics.there.add(("moves", 0))
        id = (await call("recover", {"topics": ["moves"], **WHO}))["id"]
        noted = "moves/0: 19 messages, offsets 241 to 259"
        found = await call("recovery", id=id)
        assert (found["state"], found["gone"]) == ("waiting", [noted])
        server.topics.there.clear()
        found = await until(lambda: call("recovery", id=id), "done")
        assert found["gone"] == [noted, "moves/1: 0 messages, offsets 221 to 279"]
        assert (await ReplayServer(server.url).status(id)).gone == tuple(found["gone"])
        before = {"moves": {"0": 241, "1": 0, "2": 0}}
        asked = {"topics": ["moves"], "positions": before, **WHO}
        id = (await call("recover", asked))["id"]
        assert (await until(lambda: call("recovery", id=id), "done"))["gone"] == []
        made = await call("preview", {"query": QUERY, "to": {"moves": "again"}, **WHO})
        assert noted in made["gone"]


async def test_a_recovery_that_cannot_be_looked_after_holds_up_no_other(log: ReplayLog) -> None:
    async with serving(log) as server:
        call, never = server.client.call, asyncio.Event()
        make = server.topics.make

        async def stuck(recovery: Recovery) -> None:
            await (make(recovery) if recovery.reason == "quick" else never.wait())

        server.topics.make = stuck  # type: ignore[method-assign]
        await call("recover", {"topics": ["moves"], **WHO})
        id = (await call("recover", {"topics": ["moves"], **WHO, "reason": "quick"}))["id"]
        await until(lambda: call("recovery", id=id), "done")


async def test_a_recovery_begins_however_many_replays_run(
    log: ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(log) as server:
        monkeypatch.setattr("sequitur.replay.server.work.MOST", 0)
        id = (await server.client.call("recover", {"topics": ["moves"], **WHO}))["id"]
        await until(lambda: server.client.call("recovery", id=id), "done")


async def test_a_fault_in_looking_after_recoveries_or_replays_ends_neither(
    log: ReplayLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for kind, name in ((Recoveries, "open"), (Replays, "running")):
        asks, left = getattr(kind, name), [2]

        def broken(self: Any, asks: Any = asks, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] >= 0:
                raise RuntimeError("planted")
            return asks(self)

        monkeypatch.setattr(kind, name, broken)
    async with serving(log) as server:
        call = server.client.call
        id = (await call("recover", {"topics": ["moves"], **WHO}))["id"]
        await until(lambda: call("recovery", id=id), "done")
    for each in ("recoveries", "replays"):
        assert caplog.text.count(f"{each}: a fault of Sequitur's") == 2


async def test_what_is_soon_over_ends_no_replay_and_no_recovery(
    log: ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.replay.replays.MOST_OPEN", 1)
    async with serving(log) as server:
        call, left = server.client.call, [0]
        asked = {"query": QUERY, "to": {"*": "again"}, **WHO}
        replay = (await call("preview", asked))["id"]
        error = (await call("preview", asked, status=503))["error"]
        assert error == "1 replays have not ended: cancel some"

        @sql_event.listens_for(log.engine, "before_cursor_execute")
        def take(_: Any, __: Any, statement: str, *___: Any) -> None:
            if left[0] and "FROM sequitur_replay_1" in statement:
                left[0] -= 1
                gone = Exception("no such table: sequitur_replay_1")
                raise OperationalError(statement, {}, gone)

        left[0] = 1
        await call("start", WHO, id=replay)
        await until(lambda: call("replay", id=replay), "done")
        await call("preview", asked)
        wanted = {"topics": ["moves"], "query": {"sequences": [0, 9]}, **WHO}
        left[0] = 1
        id = (await call("recover", wanted))["id"]
        await until(lambda: call("recovery", id=id), "done")
        assert left == [0]


async def test_a_recovery_beyond_the_most_is_to_come_again(
    log: ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.replay.recoveries.MOST_OPEN", 1)
    wanted = {"topics": ["moves"], **WHO}
    async with serving(log) as server:
        call = server.client.call
        id = (await call("recover", wanted))["id"]
        await until(lambda: call("recovery", id=id), "done")
        error = (await call("recover", wanted, status=503))["error"]
        assert error == "the topics of 1 recoveries are there still: close some"


async def test_a_recovery_that_nobody_closes_ends_by_itself(log: ReplayLog) -> None:
    async with serving(log) as server:
        call = server.client.call
        server.topics.there.add(("gates", 0))
        id = (await call("recover", {"topics": ["moves"], "keep": 1, **WHO}))["id"]
        while (found := await call("recovery", id=id))["state"] != "closed":
            await asyncio.sleep(0.02)
        assert found["why"] == "server: its 1 s are over"


async def test_who_is_killed_while_a_recovery_is_closed_leaves_no_replay_open(
    log: ReplayLog,
) -> None:
    broker = FullBroker(0)
    async with serving(log, broker=broker) as server:
        call = server.client.call
        id = (await call("recover", {"topics": ["moves"], **WHO}))["id"]
        await until(lambda: call("recovery", id=id), "running")
        with log.engine.begin() as connection:
            closed = update(RECOVERIES).where(RECOVERIES.c.id == id)
            connection.execute(closed.values(closed=f"ann: {'x' * 400}"))
        await until(lambda: call("replay", id=id), "cancelled")
        while not server.recoveries.get(id).deleted:
            await asyncio.sleep(0.02)
        assert server.recoveries.get(id).closed == f"ann: {'x' * 400}"
        broker.room = math.inf


async def test_slow_queries_stop_nothing_else(
    log: ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sequitur.replay.server.service._AT_ONCE", 1)
    monkeypatch.setattr("sequitur.replay.server.service._WAIT", 0.1)
    async with serving(log) as server:
        call, slow, under_way = server.client.call, Event(), asyncio.Event()
        id = (await call("preview", {"query": QUERY, "to": {"*": "again"}, "rate": 1, **WHO}))["id"]
        count, loop = ReplayLog.count, asyncio.get_running_loop()

        def counted(log: ReplayLog, query: Query) -> int:
            loop.call_soon_threadsafe(under_way.set)
            assert slow.wait(60)
            return count(log, query)

        monkeypatch.setattr(ReplayLog, "count", counted)
        counting = asyncio.create_task(call("count", {"query": {"through": 7}}))
        try:
            await under_way.wait()
            error = (await call("page", {}, status=503))["error"]
            assert error == "1 queries have been under way for 0 s; try again"
            assert (await call("cancel", WHO, id=id))["state"] == "cancelled"
        finally:
            slow.set()
        assert await counting == {"messages": 7, "through": 7, "gone": []}


@pytest.mark.parametrize("what", ["recoveries", "queries", "replays"])
async def test_counts_that_take_long_are_begun_once_and_stop_nothing_else(
    log: ReplayLog, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr("sequitur.replay.server.work._LONGEST", 0.1)
    monkeypatch.setattr("sequitur.replay.server.work._PATIENCE", 0.01)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    async with serving(log) as server:
        call, slow, begun = server.client.call, Event(), list[int]()
        asked = {"query": QUERY, "to": {"*": "again"}, **WHO}
        replays = [(await call("preview", asked))["id"] for _ in range(3)]
        count = ReplayLog.count

        def counted(log: ReplayLog, query: Query) -> int:
            if query.through != 0:  # else nothing is counted
                begun.append(1)
                assert slow.wait(60)
            return count(log, query)

        monkeypatch.setattr(ReplayLog, "count", counted)
        waiting = list[asyncio.Task[Any]]()
        try:
            for n in range(3):
                if what == "recoveries":
                    await call("recoverAs", {"topics": ["moves"], **WHO}, id=f"{n:012}")
                elif what == "queries":
                    waiting.append(asyncio.create_task(call("count", {"query": QUERY})))
                else:
                    await call("start", WHO, id=replays[n])
            while len(begun) < 3:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            assert (await call("log"))["end"] == 25
            assert len(begun) == 3
        finally:
            slow.set()
        assert [each["messages"] for each in await asyncio.gather(*waiting)] == [20] * len(waiting)
        for n in range(3):
            if what == "recoveries":
                await until(partial(call, "recovery", id=f"{n:012}"), "done")
            elif what == "replays":
                await until(partial(call, "replay", id=replays[n]), "done")


async def test_a_query_that_takes_too_long_ends_and_its_error_says_what_to_do(
    log: ReplayLog,
) -> None:
    async with serving(log, query_seconds=0.0) as server:
        call, search = server.client.call, {"query": {"text": "n"}}
        for name, asked in (
            ("count", search),
            ("page", search),
            ("preview", {**search, "to": {"*": "again"}, **WHO}),
        ):
            error = (await call(name, asked, status=400))["error"]
            assert error.startswith("the query took more than 0 s, and was ended: name topics")
        # What is published is not limited so.
        id = server.recoveries.replays.preview(
            ReplayRequest(Query(text="n"), {"*": "again"}, "ann", "a test")
        ).id
        await call("start", WHO, id=id)
        assert (await until(lambda: call("replay", id=id), "done"))["done"] == 25


async def test_a_fault_that_comes_again_pauses_a_replay_and_is_named(
    log: ReplayLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sequitur.replay.server.work._FAULT", 0.01)
    async with serving(log) as server:
        call = server.client.call

        async def fail(_: OutboundBatch) -> None:
            raise AssertionError("partition")

        monkeypatch.setattr(server.broker, "publish", fail)
        id = (await call("preview", {"query": QUERY, "to": {"*": "again"}, **WHO}))["id"]
        await call("start", WHO, id=id)
        found = await until(lambda: call("replay", id=id), "paused")
        assert found["why"] == "a fault of Sequitur's, 3 times: AssertionError('partition')"


ROUTES = """
[router]
name = "r"
site = "ewr"
[source.in]
module = "m"
rules = ["both"]
[module.m]
format = "json"
keys = { to = "to" }
[rule.both]
when = { key = "to", equals = "both" }
to = ["board", "moves"]
[destination.moves]
[destination.board]
address = "gates"
"""


async def test_through_the_router_the_requester_alone_gets_what_the_rules_of_now_say(
    log: ReplayLog, tmp_path: Path
) -> None:
    path = tmp_path / "router.toml"
    path.write_text(ROUTES)
    values = [b'{"n": 1, "to": "both"}', b'{"n": 2, "to": "none"}', b"no JSON", b""]
    day = (("sequitur-day", b"2013-01-31"),)
    given = [
        CapturedMessage("in", 0, n, value, key=b"k", site="ewr", headers=day if n == 3 else ())
        for n, value in enumerate(values)
    ]
    log.append("in", given, {0: 99})
    async with serving(log, router=RouterWay(path, lambda _: ())) as server:
        call = server.client.call
        asked: dict[str, Any] = {"topics": ["gates"], "way": "router", "rules": "now", **WHO}
        id = (await call("recover", asked))["id"]
        found = await until(lambda: call("recovery", id=id), "done")
        assert (found["messages"], found["query"]["topics"]) == (4, ["in"])
        [one, mark] = server.broker.got
        assert (one.destination, one.key, one.value) == (f"gates.recovery.{id}", b"k", values[0])
        assert one.id == "ewr/in/0/0/0"
        assert dict(one.headers)["sequitur-replay-of"] == b"ewr/in/0/0"
        assert mark.headers[0][0] == "sequitur-recovery-end"
        # Those of now: the file has changed.
        path.write_text(ROUTES.replace('equals = "both"', 'equals = "none"'))
        id = (await call("recover", asked))["id"]
        await until(lambda: call("recovery", id=id), "done")
        assert [each.value for each in server.broker.got[2:]] == [values[1], b""]
        assert [each.id for each in server.broker.got[2:3]] == ["ewr/in/0/1/0"]
        # Those of then: what they had published, whatever the file says by now.
        id = (await call("recover", {**asked, "topics": ["moves"], "rules": "then"}))["id"]
        assert (await until(lambda: call("recovery", id=id), "done"))["messages"] == 25
        again = [each for each in server.broker.got if each.destination == f"moves.recovery.{id}"]
        assert [each.value for each in again[:25]] == [b'{"n": %d}' % n for n in range(25)]
        asked["query"] = {"topics": ["moves"]}
        error = (await call("recover", asked, status=400))["error"]
        assert error == "topic 'moves' is no source of the router; it has: in"


async def test_through_the_router_a_source_that_is_wanted_and_not_captured_is_refused(
    log: ReplayLog, tmp_path: Path
) -> None:
    path, screen = tmp_path / "router.toml", Endpoint("screen", "board")
    other = '[source.other]\nrules = ["rest"]\n[rule.rest]\nto = ["moves"]\n'
    late = '[source.late]\nmodule = "m"\nrules = ["both"]\n'
    path.write_text(f"{ROUTES}{other}")
    log.append("in", [CapturedMessage("in", 0, 0, b'{"to": "both"}', site="ewr")], {0: 99})
    async with serving(log, router=RouterWay(path, lambda _: [screen])) as server:
        call, asked = server.client.call, {"way": "router", "rules": "now", **WHO}
        for topic in ("gates", "gates.screen"):  # where what is not captured does not lead
            await call("recover", {"topics": [topic], **asked})
        path.write_text(f"{ROUTES}{other}{late}")
        for topic, source in (("gates", "late"), ("gates.screen", "late"), ("moves", "other")):
            error = (await call("recover", {"topics": [topic], **asked}, status=400))["error"]
            assert error == (
                f"the router's source {source!r} leads to what is wanted, and is not captured: "
                "capture it, or name the sources to recover in the query"
            )
        named = {"topics": ["gates"], "query": {"topics": ["in"]}, **asked}
        assert (await call("recover", named))["query"]["topics"] == ["in"]


async def test_through_the_router_a_registered_endpoint_gets_what_it_gets_live(
    log: ReplayLog, tmp_path: Path
) -> None:
    path = tmp_path / "router.toml"
    path.write_text(ROUTES)
    screen = Endpoint("screen", "board")
    rules = load_rules(path).with_endpoints(2, [screen])
    to = {"board": ("kafka", "gates"), "moves": ("kafka", "moves")}
    live = UnitRouting("ewr", rules, to, None)
    message = InboundMessage("in", 0, 0, 1, b'{"to": "both"}', b"k")
    sent = numbered(identify(message, "ewr"), live.route(message))
    expected = {each.destination: each.id for each in sent}
    assert expected.keys() == {"gates", "gates.screen", "moves"}
    log.append("in", [CapturedMessage("in", 0, 0, message.value, key=b"k", site="ewr")], {0: 99})
    async with serving(log, router=RouterWay(path, lambda _: [screen])) as server:
        call, asked = server.client.call, {"way": "router", "rules": "now", **WHO}
        id = (await call("recover", {"topics": ["gates.screen", "moves"], **asked}))["id"]
        await until(lambda: call("recovery", id=id), "done")
        got = {each.destination: each.id for each in server.broker.got if each.value}
        assert got == {
            f"{topic}.recovery.{id}": expected[topic] for topic in ("gates.screen", "moves")
        }
        error = (await call("recover", {"topics": ["new"], **asked}, status=400))["error"]
        known = "gates, gates.screen, moves"
        assert error == f"the router writes nothing to topic 'new', but to: {known}"


def test_nobody_registers_with_units_of_work_without_a_control_topic(tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.write_text(f'{ROUTES}[units]\nledger = "sqlite:///ledger.db"\n')
    assert registered({}, path) == []


WRONG: list[tuple[str, Any, str]] = [
    ("count", {"query": {"topic": "moves"}}, "query.topic: Extra inputs"),
    ("count", {"query": {"where": [["gate", "=", 1]]}}, "there is no field 'gate'"),
    ("count", {"query": {"since": 1e300}}, "since: 1e+300 is not a time"),
    ("count", {"query": {"where": [["delay", "=", math.inf]]}}, "numbers of at most 64 bits"),
    ("preview", {"query": {"where": [["delay", "=", 2**70]]}, "to": {"*": "x"}, **WHO}, "64 bits"),
    ("count", {"query": {"where": [["share", "=", "9" * 400]]}}, "'share' is a number, and"),
    ("count", {"query": {"topics": ["a\0b"]}}, "is not a list of at most 1000 texts"),
    ("count", {"query": {"offsets": {"\0": {"0": [0, 1]}}}}, "offsets: "),
    ("count", [], "should be an object"),
    ("count", {"query": {"through": True}}, "query.through: Input should be a valid integer"),
    ("page", {"limit": "5"}, "limit: Input should be a valid integer"),
    ("recover", {"topics": ["moves"], "keep": True, **WHO}, "keep: Input should be a valid int"),
    ("page", {"limit": 5000}, "limit: Input should be less than or equal to 1000"),
    ("preview", {"query": QUERY, "to": {"moves": "x"}, "reason": "r"}, "actor: Field required"),
    ("preview", {"query": QUERY, "to": {}, **WHO}, "to: "),
    ("preview", {"query": QUERY, "to": {"moves": "a b"}, **WHO}, "topic 'a b'"),
    ("preview", {"query": QUERY, "to": {"*": "sequitur-sites"}, **WHO}, "name one of yours"),
    ("count", {"query": {"where": [["delay", ">=", n] for n in range(101)]}}, "at most 100 items"),
    ("preview", {"query": {}, "to": {"moves": "x"}, **WHO}, "query without topics"),
    ("preview", {"query": QUERY, "to": {"moves": "x"}, "rate": 1e9, **WHO}, "rate: "),
    ("recover", {"topics": ["absent"], **WHO}, "there is no topic 'absent'"),
    ("recover", {"topics": ["gates"], **WHO}, "topic 'gates' is not captured; captured are"),
    ("recover", WHO, "topics: name at least one"),
    ("recover", {"application": "x", **WHO}, "application 'x': name topics, or one of: board"),
    ("recover", {"topics": ["moves"], "positions": {"moves": {}}, **WHO}, "nothing of"),
    ("recover", {"topics": ["moves"], "positions": {"moves": {"7": 0}}, **WHO}, "no partition 7"),
    (
        "recover",
        {"topics": ["moves"], "positions": {"moves": {"0": 0, "1": 0, "2": 999}}, **WHO},
        "positions: moves/2 says 999, and it ends at 231",
    ),
    ("recover", {"topics": ["moves"], "query": {"topics": ["gates"]}, **WHO}, "query: topic"),
    ("recover", {"topics": ["moves"], "positions": {"gates": {}}, **WHO}, "positions: topic"),
    ("recover", {"topics": ["moves"], "keep": 0, **WHO}, "keep: "),
    (
        "recover",
        {"topics": ["moves"], "way": "router", "rules": "now", **WHO},
        "the server has no rules",
    ),
    ("replays", {"limit": "many"}, "limit: "),
]


async def test_what_is_wrong_is_named(log: ReplayLog) -> None:
    async with serving(log) as server:
        for name, asked, words in WRONG:
            assert words in (await server.client.call(name, asked, status=400))["error"]
        assert (await server.client.call("recoveries"))["recoveries"] == []
        assert (await server.client.call("replays"))["replays"] == []


async def test_a_database_that_is_away_is_said_and_nothing_is_half_done(log: ReplayLog) -> None:
    async with serving(log) as server:
        call, away = server.client.call, [True]

        @sql_event.listens_for(log.engine, "before_cursor_execute")
        def refuse(_: Any, __: Any, statement: str, *___: Any) -> None:
            if away[0]:
                raise OperationalError(statement, {}, Exception("secret of the server"))

        asked = {"query": QUERY, "to": {"*": "again"}, **WHO}
        for name, given in (("log", None), ("preview", asked), ("recover", {"topics": ["moves"]})):
            given = given and {**given, **WHO}
            error = (await call(name, given, status=503))["error"]
            assert error == "the database cannot do it now (OperationalError); try again"
        away[0] = False
        assert (await call("replays"))["replays"] == (await call("recoveries"))["recoveries"] == []
        id = (await call("preview", asked))["id"]
        await call("start", WHO, id=id)
        await until(lambda: call("replay", id=id), "done")


@pytest.mark.integration
async def test_what_no_database_keeps_is_the_mistake_of_who_asks(database: str) -> None:
    engine = open_engine(database)
    log = ReplayLog(engine)
    log.create()
    log.append("moves", messages(3, metadata={}), {})
    async with serving(log) as server:
        call = server.client.call
        assert (await call("count", {"query": {"text": "\0"}}))["messages"] == 0
        error = (await call("replay", id="%00", status=400))["error"]
        assert error == "the database takes no such value: is there a NUL in a text?"
    engine.dispose()


async def test_who_changes_something_shows_the_token(log: ReplayLog) -> None:
    async with serving(log) as server:
        id = (await server.client.call("preview", {"query": QUERY, "to": {"*": "x"}, **WHO}))["id"]
        for name, (method, path, operation) in server.client.operations.items():
            for given in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": "\xff"}):
                url = f"{server.url}{path.format(id=id)}"
                async with server.session.request(method, url, json={}, headers=given) as answer:
                    assert (answer.status == 401) == ("security" in operation), name
        assert (await server.client.call("replay", id=id))["state"] == "previewed"
        # A name that a page in a browser has made lead here.
        elsewhere = {"Host": "evil.example"}
        async with server.session.get(f"{server.url}/log", headers=elsewhere) as answer:
            assert answer.status == 403
        for host in ("[", "a:b"):
            async with server.session.get(f"{server.url}/log", headers={"Host": host}) as answer:
                assert answer.status == 403, host
        # A page of elsewhere may have a browser send this, though it reads no answer.
        page = {"Origin": "https://evil.example", "Content-Type": "text/plain"}
        url = f"{server.url}/queries/count"
        async with server.session.post(url, data=b"{}", headers=page) as answer:
            assert answer.status == 403
        assert (await server.client.call("replay", id="x", status=404))["error"].startswith("there")
        assert (await server.client.call("message", id="0", status=404))["error"].startswith("th")
    async with serving(log, open_reading=False) as server:
        assert all("security" in each for _, _, each in server.client.operations.values())
        await server.client.call("log")
        async with server.session.get(f"{server.url}/log") as answer:
            assert answer.status == 401


async def test_a_body_is_limited_and_one_that_is_none_is_its_senders_fault(log: ReplayLog) -> None:
    async with serving(log) as server:
        reader, writer = await asyncio.open_connection(HOST, int(server.url.rsplit(":", 1)[1]))
        writer.write(
            b"POST /queries/count HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Encoding: gzip\r\n"
            b"Content-Length: 2\r\n\r\n{}"
        )
        answer = await reader.readuntil(b"}")
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"is not encoded as it says" in answer
        writer.close()
        url, body = f"{server.url}/queries/count", BytesIO(b" " * (2 << 20))
        async with server.session.post(url, data=body) as refused:
            assert refused.status == 413
            assert (
                problems({"type": "object", "required": ["error"]}, await refused.json(), {}) == []
            )
        for odd in (b"", b"{", b"\xff", b"\0"):
            async with server.session.post(url, data=odd) as refused:
                assert refused.status == 400
                assert (await refused.json())["error"].startswith("Invalid JSON: ")
