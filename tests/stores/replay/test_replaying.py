"""A replay publishes exactly what was previewed, once, wherever it is interrupted."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, update
from sqlalchemy.exc import OperationalError

from stores.db.engines import open_engine
from stores.replay import (
    CapturedMessage,
    Comparison,
    Condition,
    FieldKind,
    Page,
    Query,
    ReplayError,
    ReplayLog,
)
from stores.replay.replay_state import ReplayAction, ReplayState
from stores.replay.replay_tables import Replay
from stores.replay.replaying import Replaying
from stores.replay.replays import ReplayRequest, Replays
from stores.replay.republish import partition_in
from stores.replay.tables import PERIODS
from stores.segments import OutboundBatch, Pair, Place
from stores.segments.message import OutboundMessage
from tests.stores.replay.sample import messages
from tests.stores.segments.fake_transports import MemoryOutbound, nothing
from topology.model.errors import DeclarationError

WHO = ("ann", "to fill the hole of Monday")


class Broker(MemoryOutbound):
    """Keeps a batch and its place at once, as Kafka does. partitions: topic → how many."""

    def __init__(self, before: Callable[[], None] = nothing, **partitions: int) -> None:
        super().__init__(remembers=True, before=before)
        self.partitions: dict[str, int] = {"moves": 3, "again": 3, **partitions}
        self.meanwhile: Callable[[], object] = nothing
        self.tries = 0
        self.places: dict[Pair, Place] = {}

    async def start(self, pair: Pair) -> Place | None:
        await super().start(pair)
        return self.places.get(pair)

    async def partition_numbers(self, destination: str) -> Sequence[int]:
        return range(self.partitions.get(destination, 0))

    async def publish(self, batch: OutboundBatch) -> None:
        self.tries += 1
        try:
            await super().publish(batch)
        finally:
            if self.behind is batch.behind:
                self.places[batch.pair] = batch.behind
        self.meanwhile()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path / 'log.db'}")
    yield engine
    engine.dispose()


@pytest.fixture
def replays(engine: Engine) -> Replays:
    replays = Replays(ReplayLog(engine))
    replays.create()
    replays.create()
    replays.log.append("moves", messages(25, metadata={}), {0: 241, 1: 221, 2: 231})
    return replays


def asked(query: Query | None = None, **given: Any) -> ReplayRequest:
    query = query or Query(topics=("moves",), sequences=(5, None))
    return ReplayRequest(
        query, **{"targets": {"moves": "again"}, **given}, actor=WHO[0], reason=WHO[1]
    )


def started(replays: Replays, request: ReplayRequest | None = None) -> str:
    id = replays.preview(request or asked()).id
    replays.act(id, ReplayAction.START, *WHO)
    return id


async def run(replays: Replays, id: str, broker: Broker, page: int = 4) -> None:
    await asyncio.wait_for(Replaying(replays, id, broker, page=page).run(), 120)


def sequences(broker: Broker) -> list[int]:
    return [int((each.value or b"")[6:-1]) for each in broker.got]


async def test_what_was_previewed_is_published_and_nothing_that_came_later(
    replays: Replays,
) -> None:
    preview = replays.preview(asked())
    assert (preview.count, preview.state, preview.query.through) == (20, ReplayState.PREVIEWED, 25)
    replays.log.append("moves", messages(25, metadata={}), {})
    broker = Broker()
    replays.act(preview.id, ReplayAction.START, *WHO)
    await run(replays, preview.id, broker)
    assert sequences(broker) == list(range(5, 25))
    assert [each.partition for each in broker.got] == [n % 3 for n in range(5, 25)]
    assert {each.destination for each in broker.got} == {"again"}
    assert [each.key for each in broker.got] == [b"k%d" % n for n in range(5, 25)]
    found = replays.get(preview.id)
    assert (found.state, found.done, found.position) == (ReplayState.DONE, 20, 25)
    history = [(each.action, each.actor, each.reason) for each in replays.history(preview.id)]
    assert history == [
        ("preview", *WHO),
        ("start", *WHO),
        ("finish", "server", "20 of 20 messages"),
    ]
    assert replays.newest() == [found]
    assert replays.newest(state=ReplayState.RUNNING) == []


@pytest.mark.parametrize("other", [False, pytest.param(True, marks=pytest.mark.integration)])
async def test_replays_of_a_log_that_an_older_version_made_go_on(
    engine: Engine, other: bool, request: pytest.FixtureRequest
) -> None:
    if other:
        engine = open_engine(request.getfixturevalue("database"))
    replays = Replays(ReplayLog(engine))
    replays.create()
    replays.log.append("moves", messages(25, metadata={}), {0: 241, 1: 221, 2: 231})
    id = started(replays)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE sequitur_replays DROP COLUMN sources")
    replays.create()
    replays.create()
    broker = Broker()
    await run(replays, id, broker)
    assert sequences(broker) == list(range(5, 25))
    assert replays.get(id).sources == {"moves": 3}
    assert replays.get(started(replays)).sources == {}
    engine.dispose()


async def test_headers_of_the_way_go_and_those_of_the_replay_come(replays: Replays) -> None:
    given = (
        *(("h", b"\xff"), ("TraceParent", b"t"), ("baggage", b"b"), ("X-B3-TraceId", b"3")),
        *(("sequitur-origin", b"o"), ("sequitur-sites", b"s"), ("sequitur-replay", b"r")),
        *(("h", b""), ("sequitur-id", b"ewr/in/0/7/1"), ("sequitur-replay-time", b"7")),
    )
    day = CapturedMessage("gates", 0, 1, b"", headers=(("sequitur-day", b"2013-01-31"),))
    one = CapturedMessage("gates", 0, 2, b"{}", 1_357_000, headers=given, origin="jfk/gates/0/9")
    two = CapturedMessage("gates", 5, 3, b"{}", site="ewr")
    replays.log.append("gates", [day, one, two], {0: 3, 5: 4})
    id = started(replays, asked(Query(topics=("gates",)), targets={"*": "again"}))
    broker = Broker()
    await run(replays, id, broker)
    assert [each.id for each in broker.got] == ["ewr/in/0/7/1", "ewr/gates/5/3"]
    added = {"sequitur-replay": id.encode(), "sequitur-replay-by": b"ann"}
    assert broker.got[0].headers == (
        *(("h", b"\xff"), ("h", b""), ("sequitur-id", b"ewr/in/0/7/1")),
        ("sequitur-replay", added["sequitur-replay"]),
        ("sequitur-replay-of", b"jfk/gates/0/9"),
        ("sequitur-replay-by", b"ann"),
        ("sequitur-replay-time", b"1357000"),
    )
    assert broker.got[1].headers[-1] == ("sequitur-replay-by", b"ann"), "its time is not known"
    # Its topic is gone, and had six partitions: its number is kept modulo, as it has no key.
    assert [each.partition for each in broker.got] == [0, 2]
    found = replays.get(id)
    assert (found.state, found.done, found.count) == (ReplayState.DONE, 3, 3)


async def test_what_was_captured_before_it_was_published_goes_where_its_key_says(
    replays: Replays,
) -> None:
    unit = CapturedMessage("moves", -1, -1, b"{}", key=b"k", headers=(("sequitur-id", b"a/b"),))
    replays.log.append("moves", [unit], {})
    id, broker = started(replays, asked(Query(topics=("moves",)))), Broker()
    await run(replays, id, broker)
    assert (broker.got[-1].id, broker.got[-1].partition) == ("a/b", None)
    # That of one which has no key is chosen by its id.
    assert partition_in(replace(unit, key=None), 3, 2) is None


async def test_partitions_that_are_added_meanwhile_move_no_key(replays: Replays) -> None:
    id, broker = started(replays), Broker()
    broker.meanwhile = lambda: replays.act(id, ReplayAction.PAUSE, *WHO)
    await run(replays, id, broker)
    broker.meanwhile, broker.partitions["moves"] = nothing, 6
    replays.act(id, ReplayAction.RESUME, *WHO)
    await run(replays, id, broker)
    assert [each.partition for each in broker.got] == [n % 3 for n in range(5, 25)]
    assert replays.get(id).sources == {"moves": 3}
    # A recovery's topic has the partitions that the consumer's had when it was asked for.
    id, broker = started(replays, asked(ends={"again": 3})), Broker(moves=6)
    await run(replays, id, broker)
    assert [each.partition for each in broker.got[:20]] == [n % 3 for n in range(5, 25)]
    late = CapturedMessage("moves", 5, 1, b"{}", key=b"k")
    assert partition_in(late, 3, 3) is None


async def test_a_recovery_of_a_log_that_was_restored_has_its_end_marks(replays: Replays) -> None:
    query = Query(topics=("moves",), after=1000)
    id, broker = started(replays, asked(query, ends={"again": 2})), Broker()
    await run(replays, id, broker)
    assert [each.partition for each in broker.got] == [0, 1]
    assert (replays.get(id).state, replays.get(id).count) == (ReplayState.DONE, 0)


class Rules:
    """Send all to one topic, by a version that changes."""

    def __init__(self) -> None:
        self.version, self.held = "one", dict[str, str]()

    def begin(self, replay: str) -> str:
        self.held[replay] = self.version
        return self.version

    def end(self, replay: str) -> None:
        del self.held[replay]

    def __call__(self, replay: Replay, message: CapturedMessage) -> list[OutboundMessage]:
        version = self.held[replay.id].encode()
        return [OutboundMessage("kafka", "again", version, message.key, (), id=str(message.id))]


async def test_the_rules_of_a_run_are_those_of_its_beginning_and_others_are_recorded(
    replays: Replays,
) -> None:
    id, broker, rules = started(replays, asked(way="router")), Broker(), Rules()

    def change() -> None:
        rules.version = "two"
        if broker.tries == 2:
            replays.act(id, ReplayAction.PAUSE, *WHO)

    broker.meanwhile = change
    work = Replaying(replays, id, broker, {"router": rules}, page=4)
    await asyncio.wait_for(work.run(), 120)
    assert ([each.value for each in broker.got], rules.held) == ([b"one"] * 8, {})
    replays.act(id, ReplayAction.RESUME, *WHO)
    await asyncio.wait_for(work.run(), 120)
    assert [each.value for each in broker.got[8:]] == [b"two"] * 12
    said = [each.reason for each in replays.history(id) if each.action == "rules"]
    assert said == ["one", "two"]


async def test_a_server_without_rules_pauses_what_needs_them_and_says_what_to_do(
    replays: Replays,
) -> None:
    id, broker = started(replays, asked(way="router")), Broker()
    await run(replays, id, broker)
    found = replays.get(id)
    assert (found.state, broker.got) == (ReplayState.PAUSED, [])
    assert found.why == (
        "this server has no rules for the way 'router': name [server] router in the file of every "
        "server, and resume"
    )
    replays.act(id, ReplayAction.RESUME, *WHO)
    work = Replaying(replays, id, broker, {"router": Rules()})
    await asyncio.wait_for(work.run(), 120)
    assert (replays.get(id).state, len(broker.got)) == (ReplayState.DONE, 20)


class Killed(Exception):
    pass


@pytest.mark.parametrize("ends", [{}, {"again": 2}])
async def test_a_crash_at_any_step_loses_nothing_and_repeats_nothing(
    replays: Replays, monkeypatch: pytest.MonkeyPatch, ends: dict[str, int]
) -> None:
    at, left = 0, 0

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    moved = replays.move

    def move(*given: Any) -> Any:
        step()
        found = moved(*given)
        step()
        return found

    monkeypatch.setattr(replays, "move", move)
    finished = False
    while not finished:
        at += 1
        broker, left = Broker(before=step), at
        id = started(replays, asked(ends=ends))
        try:
            await run(replays, id, broker, page=7)
            finished = True
        except Killed:
            left = -1
            await run(replays, id, broker, page=7)
        marks = [each for each in broker.got if not each.value]
        assert [each.partition for each in marks] == list(range(ends.get("again", 0))), at
        assert broker.got[20:] == marks, "they are behind everything"
        del broker.got[20:]
        assert sequences(broker) == list(range(5, 25)), at
        found = replays.get(id)
        assert (found.state, found.done) == (ReplayState.DONE, 20)
    assert at > 12


async def test_no_more_than_a_page_s_bytes_are_held_however_large_messages_are(
    replays: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.replay.log._BYTES", 50_000)
    replays.log.append("large", messages(60, topic="large", value=b"x" * 9_000), {})
    broker, sizes = Broker(), list[int]()
    broker.meanwhile = lambda: sizes.append(len(broker.got))
    asked_for = asked(Query(topics=("large",)), targets={"*": "again"})
    await run(replays, started(replays, asked_for), broker, page=1_000)
    assert len(broker.got) == 60
    assert max(after - before for before, after in pairwise([0, *sizes])) == 6


@pytest.mark.parametrize("action", [ReplayAction.PAUSE, ReplayAction.CANCEL])
async def test_pause_and_cancel_hold_within_a_page(replays: Replays, action: ReplayAction) -> None:
    id, broker = started(replays), Broker()
    calls = iter([lambda: replays.act(id, action, *WHO)])
    broker.meanwhile = lambda: next(calls, nothing)()
    await run(replays, id, broker)
    assert sequences(broker) == [5, 6, 7, 8]
    await run(replays, id, broker)  # as after a restart
    assert len(broker.got) == 4
    if action is ReplayAction.CANCEL:
        with pytest.raises(ReplayError, match="it has ended"):
            replays.act(id, ReplayAction.RESUME, *WHO)
        return
    replays.act(id, ReplayAction.RESUME, *WHO)
    await run(replays, id, broker)
    assert sequences(broker) == list(range(5, 25))


async def test_what_retention_took_meanwhile_fails_it_and_is_named(
    replays: Replays, engine: Engine
) -> None:
    with engine.begin() as connection:
        connection.execute(update(PERIODS).values(day=0, begun=0))
    replays.log.append("moves", messages(9, metadata={}), {})
    whole, rest = started(replays), started(replays, asked(Query(topics=("moves",), after=25)))
    broker = Broker()
    with engine.begin() as connection:
        connection.execute(update(PERIODS).where(PERIODS.c.number == 2).values(begun=1))

    def retain() -> None:
        broker.meanwhile = nothing
        assert replays.log.retain(3600)

    broker.meanwhile = retain
    await run(replays, whole, broker)
    found = replays.get(whole)
    assert (found.state, found.done, len(broker.got)) == (ReplayState.FAILED, 4, 4)
    assert found.why.startswith(
        "16 of its 24 messages are gone since it was previewed: retention took moves/0: 9 messages"
    )
    assert "offsets 0 to 240" in found.why
    # What it took has nothing of this one.
    await run(replays, rest, other := Broker())
    assert (replays.get(rest).state, len(other.got)) == (ReplayState.DONE, 9)
    assert "offsets 0 to 240" in replays.preview(asked()).holes[0]


async def test_what_retention_took_fails_it_where_it_took_what_was_before_it_too(
    replays: Replays, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.replay.writing.PERIOD", 1)
    for offset in (1_000, 2_000):
        later = [replace(each, offset=offset + each.offset) for each in messages(9, metadata={})]
        replays.log.append("moves", later, {})

    def retain() -> None:
        broker.meanwhile = nothing
        with engine.begin() as connection:
            mine = update(PERIODS).where(PERIODS.c.number < replays.log.end())
            connection.execute(mine.values(begun=PERIODS.c.number))
        assert replays.log.retain(3600)
        replays.log.append("moves", messages(1, metadata={}), {})

    broker = Broker()
    retain()
    id = started(replays, asked(Query(topics=("moves",))))
    broker.meanwhile = retain
    await run(replays, id, broker)
    found = replays.get(id)
    assert (found.state, found.done) == (ReplayState.FAILED, 4)


async def test_what_the_broker_refuses_stops_it_until_it_is_left_out(replays: Replays) -> None:
    id, broker = started(replays), Broker()
    broker.refused = {b'{"n": 11}', b'{"n": 13}'}
    await run(replays, id, broker)
    found = replays.get(id)
    assert (found.state, sequences(broker)) == (ReplayState.PAUSED, [5, 6, 7, 8])
    assert found.why == (
        "message 12 (ewr/moves/2/110) is refused by again: it is too large; let again take it, or "
        "resume with skip"
    )
    replays.act(id, ReplayAction.RESUME, *WHO, on_refused="skip")
    await run(replays, id, broker)
    assert sequences(broker) == [n for n in range(5, 25) if n not in (11, 13)]
    found = replays.get(id)
    assert (found.state, found.done, found.why) == (ReplayState.DONE, 20, "")
    assert replays.refused(id) == (2, [(12, "it is too large"), (14, "it is too large")])


async def test_a_target_that_is_not_there_is_waited_for_and_never_left_out(
    replays: Replays,
) -> None:
    id, broker = started(replays, asked(on_refused="skip", targets={"moves": "absent"})), Broker()
    await run(replays, id, broker)
    found = replays.get(id)
    assert (found.state, found.why) == (
        ReplayState.PAUSED,
        "there is no topic absent: make it, and resume",
    )
    broker.partitions["absent"] = 2
    replays.act(id, ReplayAction.RESUME, *WHO)
    await run(replays, id, broker)
    assert sequences(broker) == list(range(5, 25))
    assert {each.partition for each in broker.got} == {None}, "its key decides"


async def test_another_server_stands_by_and_a_broker_that_is_away_is_waited_for(
    replays: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.replay.replaying._RETRY", 0.01)
    id, broker = started(replays), Broker()
    broker.down = True
    first = asyncio.create_task(run(replays, id, broker))
    while broker.tries < 2:
        await asyncio.sleep(0.01)
    other = Broker()
    await run(replays, id, other)
    assert other.got == []
    broker.down = False
    await first
    assert sequences(broker) == list(range(5, 25))


async def test_a_page_that_takes_longer_than_the_lease_is_published_once(
    replays: Replays, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, id = ReplayLog.page, started(replays)

    def slow(*given: Any) -> Page:
        time.sleep(1.5)
        return page(*given)

    async def server(broker: Broker) -> None:
        replaying = Replaying(replays, id, broker, lease_seconds=0.5)
        while replays.get(id).state is ReplayState.RUNNING:
            await replaying.run()
            await asyncio.sleep(0.1)

    monkeypatch.setattr(ReplayLog, "page", slow)
    brokers = Broker(), Broker()
    await asyncio.wait_for(asyncio.gather(*map(server, brokers)), 30)
    assert sorted(len(each.got) for each in brokers) == [0, 20]


async def test_a_database_that_is_away_is_waited_for_and_nothing_comes_twice(
    replays: Replays, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.replay.replaying._RETRY", 0.01)
    id, broker, refusing = started(replays), Broker(), [0]

    @event.listens_for(engine, "before_cursor_execute")
    def refuse(_: Any, __: Any, statement: str, *___: Any) -> None:
        if refusing[0]:
            refusing[0] -= 1
            raise OperationalError(statement, {}, Exception("the server is gone"))

    def go_away() -> None:  # once the broker has a page that SQL knows nothing of
        refusing[0] = 5 * (len(broker.got) == 8)

    broker.meanwhile = go_away
    await run(replays, id, broker)
    assert (sequences(broker), refusing) == (list(range(5, 25)), [0])
    assert replays.get(id).done == 20


@pytest.mark.parametrize("query", [Query(("moves",), after=999), Query(("none",))])
async def test_a_replay_of_nothing_publishes_nothing_and_ends(
    replays: Replays, query: Query
) -> None:
    id, broker = started(replays, asked(query, targets={"*": "again"})), Broker()
    await run(replays, id, broker)
    found = replays.get(id)
    assert (found.state, found.count, found.done) == (ReplayState.DONE, 0, 0)
    assert broker.got == []


async def test_a_rate_is_held_by_short_pages(replays: Replays) -> None:
    id, broker = started(replays, asked(rate=100)), Broker()
    await run(replays, id, broker, page=1000)
    assert (sequences(broker), broker.behind) == (list(range(5, 25)), Place(20, 25))
    slow, broker = started(replays, asked(rate=2)), Broker()
    task = asyncio.create_task(run(replays, slow, broker, page=1000))
    while not broker.got:
        await asyncio.sleep(0.01)
    replays.act(slow, ReplayAction.PAUSE, *WHO)
    await task
    assert len(broker.got) < 20


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"targets": {}}, "name the topic that it goes to"),
        ({"targets": {"gates": "x"}}, "topic 'moves' has no target"),
        ({"query": Query(), "targets": {"moves": "x"}}, "a query without topics has no target"),
        ({"rate": 0.0}, "rate 0.0: from 0.001"),
        ({"rate": float("nan")}, "rate nan"),
        ({"on_refused": "wait"}, "say stop or skip"),
        ({"targets": {"moves": "a b"}}, "topic 'a b'"),
    ],
)
def test_what_cannot_be_replayed_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises((ReplayError, DeclarationError), match=words):
        asked(given.pop("query", None), **given)


def test_a_query_that_could_not_be_read_again_is_not_kept(replays: Replays) -> None:
    replays.log.fields["share"] = FieldKind.NUMBER
    query = Query(topics=("moves",), where=(Condition("share", Comparison.NOT, 2**64),))
    with pytest.raises(ReplayError, match="the query cannot be kept: Integer exceeds 64-bit"):
        replays.preview(asked(query))
    assert replays.newest() == []


def test_nobody_does_anything_without_a_name_and_a_reason(replays: Replays) -> None:
    id = replays.preview(asked()).id
    for who in (("", "why"), ("ann", " "), ("a" * 201, "why"), ("ann", "\0")):
        with pytest.raises(ReplayError, match="write a text"):
            replays.act(id, ReplayAction.START, *who)
    with pytest.raises(ReplayError, match="there is no replay 'x'"):
        replays.act("x", ReplayAction.START, *WHO)
    with pytest.raises(ReplayError, match=f"replay {id}: it is previewed, and pause is for one"):
        replays.act(id, ReplayAction.PAUSE, *WHO)
    again = replays.preview(replace(asked(), reason="other"), id)
    assert (again.reason, len(replays.history(id))) == (WHO[1], 1)
