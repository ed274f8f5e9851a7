"""Queries of the state of views: what is asked, who answers, and what it is as of."""

import signal
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from urllib.error import HTTPError
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen

import aiohttp
import orjson
import pytest
from aiokafka import TopicPartition
from confluent_kafka.cimpl import NewTopic

from sequitur.local.ports import HOST, free_port
from stores.view_state.memory import MemoryTable
from tests.conftest import make_topics
from tests.topology.faust.worker_process import Worker
from topology import Inspector, Topology, TopologyTestDriver
from topology.declaration.lanes import escaped
from topology.declaration.view import View
from topology.engine.state.reading import BYTES, StreamReader, page
from topology.engine.state.rows import progress_key
from topology.faust.processes import NumberedWorker
from topology.faust.settings import Settings
from topology.faust.worker.queries.ownership import NotHere, NotYet, Ownership, Place
from topology.faust.worker.queries.question import Question, Wrong
from topology.faust.worker.queries.server import QueryServer
from topology.faust.worker.writing.partitioning import Partitions
from topology.verbs import count, events, tumbling

APP = """
import os
from topology import Inspector, Topology
from topology.faust import compile
from topology.verbs import count, events, tumbling

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector("tail", "number"), partitions=4, name="in"
)
moves = events(topology, source, time=lambda move: move["time"])
days = moves.each().window(tumbling(86400)).fold(count(), name="days")
days.to_rows("days")
days.by(lambda row: row.value).fold(count(), name="sizes").to_rows("sizes")
kept = topology.source(prefix + ".keyed", inspector=Inspector("id", "n"), keyed=True, name="keyed")
topology.view("kept", of=kept, handler=lambda event, state: [])
app = compile(topology, group=prefix, session_timeout=20, broker_heartbeat_interval=1.0)
"""
DAY = 86_400


@pytest.fixture
def app() -> str:
    return APP


def graph() -> Topology:
    found = Topology("flights")
    source = found.source("moves", inspector=Inspector("tail", "number"))
    moves = events(found, source, time=lambda move: move["time"])
    hours = moves.by(lambda move: move["origin"]).window(tumbling(3600))
    hours.fold(count(), name="hours").fold(count(), name="busy")

    @found.view("plain", of=source)
    def plain(event: Any, state: dict[str, Any], cells: Any) -> None:
        state["last"], cells[f"{event.sequence:03}"] = event.sequence, event.content

    return found


def test_rows_cells_and_state_are_read_from_what_is_committed_page_by_page() -> None:
    topology = graph()
    driver = TopologyTestDriver(topology)
    for number in range(1, 8):
        move = {"tail": "N1", "number": number, "time": -3601 + 3600 * number, "origin": "JFK"}
        driver.pipe("moves", move)
    tables = driver._storage.stores
    reader = StreamReader(topology.views["hours"], tables["hours"], "JFK")
    rows, following = page(reader.rows("hours"), 5, 0)
    assert [row["value"] for row in rows] == [1] * 5
    assert following == 5
    rest, following = page(reader.rows("hours", 5), 5, 5)
    assert following is None
    starts = {row["start"].timestamp() for row in rows + rest}
    assert starts == {-3600.0 + 3600 * n for n in range(7)}
    (busy,) = reader.rows("busy")
    assert (busy["key"], busy["value"]) == ("JFK", 7)
    plain = StreamReader(topology.views["plain"], tables["plain"], "N1")
    assert plain.stream.state == {"last": 7}
    assert [key for key, _ in plain.cells("003", "006")] == ["003", "004", "005"]
    assert plain.stream.sequence == 7
    nobody = StreamReader(topology.views["plain"], tables["plain"], "N" * 600)
    assert not nobody.stream.known
    assert nobody.stream.sequence is None
    assert page(iter(["x" * BYTES, "y"]), 9, 0) == (["x" * BYTES], 1)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({}, "view: name one of hours-by, hours, plain"),
        ({"view": "plain"}, "name the stream"),
        ({"view": "plain", "stream": "a", "what": "rows"}, "it has|has none"),
        ({"view": "hours", "stream": "a", "fold": "x"}, "has hours, busy"),
        ({"view": "hours", "stream": "a", "from": "k"}, "from: it is of what=cells.* for rows"),
        ({"view": "plain", "stream": "a", "to": "k"}, "to: it is of what=cells.* for state"),
        ({"view": "hours", "stream": "a", "what": "cells", "fold": "busy"}, "fold: .*what=rows"),
        ({"view": "plain", "stream": "a", "skip": "1"}, "a state has no pages"),
        ({"view": "plain", "stream": "a", "limit": "0"}, "1 at least"),
        ({"view": "plain", "stream": "a", "limit": "1001"}, "1000 at most"),
        ({"view": "plain", "stream": "a", "skip": "-1"}, "give a number"),
        ({"view": "plain", "stream": "a", "drop": "1"}, "it is none of"),
        ({"view": "plain", "stream": "a" * 3001}, "more than 3000 letters"),
        ({"view": "plain", "stream": "a\0b"}, "NUL"),
        ({"view": "plain", "stream": "a", "max_staleness": "5"}, "max_staleness"),
        ({"view": "hours", "stream": "a", "max_staleness": "5s"}, "not known here; leave it out"),
        ({"view": "plain", "stream": "a", "not_in": "x"}, "leave it out"),
    ],
)
def test_a_wrong_question_is_refused_with_the_remedy(asked: dict[str, str], why: str) -> None:
    with pytest.raises(Wrong, match=why):
        Question.read(graph(), asked)


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Host": "["}]
)
async def test_a_page_of_elsewhere_reads_nothing_by_a_browser_of_this_machine(
    headers: dict[str, str],
) -> None:
    server = QueryServer(SimpleNamespace(), cast(Any, SimpleNamespace(topology=graph())))
    port = free_port()
    await server.start(f"127.0.0.1:{port}")
    try:
        async with aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{port}/query"
            async with session.get(url, headers=headers) as answer:
                assert answer.status == 403
            async with session.get(url) as answer:
                assert answer.status == 404
    finally:
        await server.stop()


def test_an_address_that_nobody_reaches_is_refused_and_processes_have_their_own() -> None:
    assert Settings(queries="7070").queries_url == "http://127.0.0.1:7070"
    for address in ("0", "0.0.0.0:7070"):
        with pytest.raises(ValueError, match="queries_url"):
            Settings(queries=address)
    given = Settings(queries="0.0.0.0:7070", queries_url="http://box:7070")
    second = NumberedWorker(2, 0).settings(given)
    assert (second.queries, second.queries_url) == ("0.0.0.0:7071", "http://box:7071")


class Held(Ownership):
    """A worker with some partitions of four, None for one that is being restored; it is a member of
    its group."""

    def __init__(self, tables: dict[int, MemoryTable | None]) -> None:
        async def four(topic: str, wanted: int) -> int:
            return 4

        context = SimpleNamespace(partitions=Partitions(four))
        super().__init__(SimpleNamespace(), cast(Any, SimpleNamespace(context=context)))
        self.tables = tables

    def _place(self, view: View, number: int) -> Place:
        if number not in self.tables:
            raise NotHere(number, self._owner(view, number))
        if (table := self.tables[number]) is None:
            raise NotYet("it is being restored")
        at = TopicPartition(view.of.by_stream, number)
        return Place(view, at, cast(Any, None), cast(Any, table))

    def _owner(self, view: View, partition: int) -> str:
        return f"http://has-{partition}:7070"

    async def certain(self) -> bool:
        return True


def orders() -> Topology:
    """A view of a source that somebody else keys, and one with lanes of another source."""
    found = Topology("shop")
    source = found.source("orders", inspector=Inspector("id", "n"), keyed=True)
    found.view("kept", of=source, handler=lambda event, state: [])
    mixed = found.source("mixed", inspector=Inspector("id", "n"))
    found.view("lanes", of=mixed, lane="currency", handler=lambda event, state: [])
    return found


def about(stream: str, view: str = "kept", **more: str) -> Question:
    return Question.read(orders(), {"view": view, "stream": stream, **more})


async def test_a_stream_is_found_in_whatever_partition_somebody_else_has_put_it() -> None:
    for number in range(4):
        table = MemoryTable()
        table.write([(progress_key("7"), b"1")])
        held = Held({at: table if at == number else MemoryTable() for at in range(4)})
        assert (await held.place(about("7"))).partition.partition == number


async def test_nobody_says_that_a_stream_is_not_known_before_all_partitions_were_looked_in() -> (
    None
):
    first, second = Held({0: MemoryTable(), 2: MemoryTable()}), Held({1: MemoryTable(), 3: None})
    with pytest.raises(NotHere) as led:
        await first.place(about("7"))
    assert led.value.not_in == 0b101
    assert led.value.owner in ("http://has-1:7070", "http://has-3:7070")
    on = about("7", not_in="5")
    with pytest.raises(NotYet, match="restored"):
        await second.place(on)
    third = second.tables[3] = MemoryTable()
    assert (await second.place(on)).partition.partition in (1, 3)
    with pytest.raises(NotYet, match="max_staleness"):
        await second.place(about("7", not_in="5", max_staleness="5s"))
    third.write([(progress_key("7"), b"1")])
    found = await second.place(about("7", not_in="5", max_staleness="5s"))
    assert found.partition.partition == 3


async def test_a_lane_is_in_the_partition_of_its_stream_whatever_letters_that_has() -> None:
    held = Held({at: MemoryTable() for at in range(4)})
    for number in range(20):
        stream = f"{number}|%7C"
        place = await held.place(about(f"{escaped(stream)}|EUR", "lanes"))
        partitions = held._engine.context.partitions
        assert place.partition.partition == partitions.of(stream.encode(), 4)


async def test_a_redirect_asks_the_same() -> None:
    server = QueryServer(SimpleNamespace(), cast(Any, SimpleNamespace(topology=orders())))
    server._ownership = Held({0: MemoryTable()})
    port = free_port()
    await server.start(f"127.0.0.1:{port}")
    try:
        async with aiohttp.ClientSession() as session:
            params = {"view": "kept", "stream": "a%7Cb & é"}
            url = f"http://127.0.0.1:{port}/query"
            async with session.get(url, params=params, allow_redirects=False) as answer:
                assert answer.status == 307
                asked = parse_qs(urlsplit(answer.headers["Location"]).query)
    finally:
        await server.stop()
    assert asked == {"view": ["kept"], "stream": ["a%7Cb & é"], "not_in": ["1"]}


def asked(
    port: int, view: str, stream: str, patience: float = 60, **more: str
) -> tuple[int, dict[str, Any]]:
    """(status, answer) of whoever has the stream; status 0 where nobody answers."""
    url = f"http://{HOST}:{port}/query?" + urlencode({"view": view, "stream": stream, **more})
    try:
        with urlopen(url, timeout=patience) as found:
            return found.status, orjson.loads(found.read())
    except HTTPError as error:
        return error.code, orjson.loads(error.read())
    except OSError:
        return 0, {}


def knows(port: int, id: str) -> bool:
    return bool(asked(port, "kept", id)[1].get("known"))


@pytest.mark.integration
def test_any_worker_leads_to_the_one_that_has_the_stream_and_says_what_it_is_as_of(
    worker: Worker,
) -> None:
    make_topics(worker.broker, NewTopic(f"{worker.prefix}.keyed", 4, 1))
    other = worker.another("two")
    ports = free_port(), free_port()
    # Faust's own port is not where others are sent.
    worker.start("--web-port", "1", SEQUITUR_QUERIES=str(ports[0]))
    other.start("--web-port", "1", SEQUITUR_QUERIES=str(ports[1]))
    tails = [f"N{n}" for n in range(4)]
    sent: list[dict[str, Any]] = [
        {"tail": tail, "number": number, "time": day * DAY}
        for tail in tails for number, day in ((1, 0), (2, 0), (4, 1), (3, 0))
    ]  # fmt: skip
    worker.send(*((move["tail"].encode(), orjson.dumps(move)) for move in sent))

    def answered(port: int, view: str, stream: str, **more: str) -> dict[str, Any]:
        """The answer of a worker that its group confirms, once there is one."""
        found: dict[str, Any] = {}

        def certain() -> bool:
            nonlocal found
            status, found = asked(port, view, stream, 60, **more)
            as_of = found.get("as_of", {})
            return status == 200 and as_of["certain"] and as_of["lag_records"] is not None

        worker.wait_until(certain)
        return found

    def whole(port: int, patience: float = 60) -> bool:
        found = (asked(port, "days", tail, patience)[1] for tail in tails)
        return all(each.get("sequence") == 4 for each in found)

    for port in ports:
        worker.wait_until(lambda port=port: whole(port))  # type: ignore[misc]
        for tail in tails:
            answer = answered(port, "days", tail)
            assert [(row["value"], row["final"]) for row in answer["rows"]] == [(1, False)]
            assert answer["as_of"]["topic"] == f"{worker.prefix}.in.by-stream"
    worker.wait_until(
        lambda: [row["value"] for row in answered(ports[0], "sizes", "3")["rows"]] == [4]
    )
    assert answered(ports[0], "sizes", "3")["as_of"]["topic"].endswith(".sizes.by-key")
    answer = answered(ports[0], "days", tails[0], max_staleness="60s")
    assert answer["sequence"] == 4
    assert 0 <= answer["as_of"]["staleness_seconds"] <= 60
    assert asked(ports[0], "days", tails[0], max_staleness="1ms")[0] == 503
    for odd in ("é/%?" * 128, "N" * 900):
        assert answered(ports[0], "days", odd)["known"] is False
    assert asked(ports[1], "nothing", "N1")[0] == 404
    done = worker.run("query", "days", "N1", "--json", "--worker", f"{HOST}:{ports[1]}")
    assert orjson.loads(done.stdout)["rows"][0]["value"] == 1, done.stdout + done.stderr
    # Somebody else has keyed these, and put them into partitions.
    ids = [f"id{n}" for n in range(8)]
    bodies = [(orjson.dumps({"id": id}), orjson.dumps({"id": id, "n": 1})) for id in ids]
    worker.send(*bodies, topic="keyed")
    for port in ports:
        for id in ids:
            worker.wait_until(partial(knows, port, id))
        assert answered(port, "kept", "nobody")["known"] is False
    # One that was away while another took its partitions never answers as if it were current.
    other.process.send_signal(signal.SIGSTOP)
    # Until the others have them, its streams lead to it, and it does not answer.
    worker.wait_until(lambda: whole(ports[0], patience=3))
    more: list[dict[str, Any]] = [{"tail": tail, "number": 5, "time": DAY} for tail in tails]
    worker.send(*((move["tail"].encode(), orjson.dumps(move)) for move in more))
    worker.wait_until(
        lambda: all(asked(ports[0], "days", tail)[1].get("sequence") == 5 for tail in tails)
    )
    other.process.send_signal(signal.SIGCONT)

    def awake() -> bool:
        """Whether it knows by now; nothing that it says until then is old and certain."""
        knows = 0
        for tail in tails:
            status, answer = asked(ports[1], "days", tail)
            if status == 200 and answer["sequence"] != 5:
                assert not answer["as_of"]["certain"]
            knows += status == 200 and answer["as_of"]["certain"]
            status, answer = asked(ports[1], "days", tail, max_staleness="30s")
            assert status != 200 or answer["sequence"] == 5
        return knows == len(tails)

    other.wait_until(awake)
    other.kill()
