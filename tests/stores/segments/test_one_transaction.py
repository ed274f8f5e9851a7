"""From SQL to SQL: whatever step it is killed at, nothing is lost and nothing comes twice."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import Engine, delete, select

from checkout.postgres import Postgres
from stores.db.engines import open_engine
from stores.inbox import Inbox
from stores.inbox.tables import STREAMS
from stores.locks.lease import LEASES
from stores.outbox import MessageLog, Outbox
from stores.segments import (
    BatchLimits,
    ErrorsAfter,
    InboundMessage,
    OutboundMessage,
    Pair,
    Place,
    PublishedIds,
    SegmentError,
    SegmentLedger,
    StaleOwner,
    TwoPhaseConsumer,
    UnitIntake,
)
from stores.segments.published_ids import KeptId
from stores.segments.transports.sql import InboxOutbound, LogInbound
from stores.two_phase import TwoPhaseError
from stores.two_phase.prepared import prepared
from tests.contracts.schema import new_schema
from tests.forked import context

ONE = ["begun", "taken", "received a", "received b", "worked", "ended"]
EACH = 6
"""Messages between two kills: three units."""


@dataclass(frozen=True)
class Urls:
    """Of databases. log's, those of the inboxes a and b, and the ledger's."""

    log: str
    a: str
    b: str
    ledger: str


def route(message: InboundMessage) -> list[OutboundMessage]:
    if message.value == b"nowhere":
        raise ValueError("no rule for it")
    place = "x" * 2_000 if message.value == b"long" else "there"
    return [OutboundMessage(name, place, message.value, stream=message.stream) for name in "ab"]


@dataclass
class Sides:
    """The databases, and what works on them in this process."""

    urls: Urls
    engines: dict[str, Engine] = field(default_factory=dict)

    def engine(self, name: str) -> Engine:
        url = getattr(self.urls, name)
        return self.engines.setdefault(url, open_engine(url))

    def consumer(self, step: Callable[[str], None] = lambda done: None) -> TwoPhaseConsumer:
        ledger, ids = SegmentLedger(self.engine("ledger"), lease_seconds=-1), self.ids()
        ledger.create()
        log = LogInbound("orders", self.engine("log"))
        inboxes = {name: InboxOutbound(self.engine(name), name) for name in "ab"}
        limits, errors = BatchLimits(count=2, idle=0), ErrorsAfter("a", attempts=2)
        intake = UnitIntake(log, route, errors, "ab", site="s", limits=limits)
        return TwoPhaseConsumer(intake, log, inboxes, ledger, ids, step=step)

    def ids(self) -> PublishedIds:
        found = PublishedIds(self.engine("ledger"))
        found.create()
        return found

    def capture(self, values: Sequence[bytes]) -> None:
        log = MessageLog()
        log.create(self.engine("log"))
        with self.engine("log").begin() as connection:
            for value in values:
                stream = f"s{sum(value) % 3}"
                Outbox(log).capture(connection, "orders", stream, "Placed", value)

    def move(self) -> TwoPhaseConsumer:
        consumer = self.consumer()
        asyncio.run(moved(consumer))
        return consumer

    def delivered(self, name: str, topic: str = "there") -> list[bytes]:
        found: list[bytes] = []
        inbox = Inbox(self.engine(name), name, order="monotonic")
        with self.engine(name).connect() as connection:
            while True:
                with inbox.delivery(connection) as message:
                    if message is None:
                        return found
                    if message.topic == topic:
                        found.append(message.content)

    def left(self) -> int:
        with self.engine("log").connect() as connection:
            return len(MessageLog().read_after(connection).messages)

    def close(self) -> None:
        for engine in self.engines.values():
            engine.dispose()


async def moved(consumer: TwoPhaseConsumer) -> None:
    try:
        while await consumer.step(0):
            pass
    finally:
        await consumer.stop()


def die_at(step: str, urls: Urls) -> None:
    """A process that moves a unit, and is killed at a step of the second one."""
    seen: list[str] = []

    def step_done(done: str) -> None:
        seen.append(done)
        if seen.count(step) == 2:
            os.kill(os.getpid(), signal.SIGKILL)

    asyncio.run(moved(Sides(urls).consumer(step_done)))


@pytest.fixture
def sides(
    request: pytest.FixtureRequest, tmp_path: Path, unique: Callable[[str], str]
) -> Iterator[Sides]:
    """Its parameter names the databases of log, a, b and ledger: l and m are of SQLite."""
    urls = {name: f"sqlite:///{tmp_path}/{name}.db" for name in "lm"}
    names = getattr(request, "param", "llll")
    if set(names) - set("lm"):
        server: Postgres = request.getfixturevalue("postgres")
        urls |= {name: new_schema(server.new_database(unique("side"))) for name in "pq"}
    found = Sides(Urls(*(urls[name] for name in names)))
    yield found
    found.close()


def steps(others: Sequence[str]) -> list[str]:
    work = ["begun", "joined", "taken", "received a", "received b", "worked"]
    ends = [f"{word} {each}" for word in ("prepared", "committed") for each in others]
    return [*work, *ends[: len(others)], "decided", *ends[len(others) :], "ended"]


_SERVED = pytest.mark.integration


@pytest.mark.parametrize(
    ("sides", "kills"),
    [
        ("llll", ONE),
        pytest.param("ppll", steps(["log"]), marks=_SERVED),
        pytest.param("lppm", steps(["inbox-a"]), marks=_SERVED),
        pytest.param("pqpq", steps(["inbox-a"]), marks=_SERVED),
        pytest.param("pqlm", steps(["log", "inbox-a"]), marks=_SERVED),
    ],
    indirect=["sides"],
)
def test_killed_at_each_step_nothing_is_lost_and_nothing_comes_twice(
    sides: Sides, kills: list[str]
) -> None:
    sent: list[bytes] = []
    for step in kills:
        more = [b"%d" % n for n in range(len(sent), len(sent) + EACH)]
        sides.capture(more)
        sent += more
        process = context.Process(target=die_at, args=(step, sides.urls))
        process.start()
        process.join(60)
        assert process.exitcode == -signal.SIGKILL, step
    sides.move()
    assert sides.left() == 0
    for name in "ab":
        got = sides.delivered(name)
        assert sorted(map(int, got)) == [*range(len(sent))]
        for stream in range(3):
            of = [each for each in got if sum(each) % 3 == stream]
            assert of == sorted(of, key=int)
    others = sides.consumer()._others
    assert [prepared(name, engine) for name, engine in others.items()] == [[]] * len(others)
    assert bool(others) == (kills is not ONE)


def test_what_has_no_rule_or_is_refused_goes_to_errors_and_the_rest_goes_on(sides: Sides) -> None:
    sides.capture([b"1", b"nowhere", b"2", b"long", b"3"])
    consumer = sides.move()
    assert sides.delivered("b") == [b"1", b"2", b"3"]
    with sides.engine("a").connect() as connection:
        topics = select(STREAMS.c.inbox, STREAMS.c.topic).distinct()
        found = sorted(tuple(row) for row in connection.execute(topics))
    assert found == [(name, topic) for name in "ab" for topic in ("errors", "there")]
    assert sorted(sides.delivered("a", "errors")) == [b"long", b"nowhere"]
    assert consumer.intake.counts["failed"] == 1
    assert consumer.counts["diverted"] == 2


def test_what_another_process_took_rolls_all_back(sides: Sides) -> None:
    sides.capture([b"1", b"2"])
    first = sides.consumer()

    async def overtaken() -> None:
        await first._begin()
        messages = await first.intake.batch(0)
        assert len(messages) == 2
        await moved(sides.consumer())
        assert first._owner is not None
        with pytest.raises(StaleOwner, match="another process has taken"):
            first._commit(first._owner, messages)
        await first.stop()

    asyncio.run(overtaken())
    assert sides.delivered("a") == [b"1", b"2"]


def test_another_ledger_begins_behind_what_the_inbox_has(sides: Sides) -> None:
    for value in (b"1", b"4"):
        sides.capture([value])
        sides.move()
        with sides.engine("ledger").begin() as connection:
            connection.execute(delete(LEASES))
    assert sides.delivered("a") == [b"1", b"4"]


def test_what_segments_have_already_is_taken_and_not_published(sides: Sides) -> None:
    sides.capture([b"1", b"4"])
    sides.consumer()  # makes the ledger
    ledger, ids = SegmentLedger(sides.engine("ledger"), lease_seconds=-1), sides.ids()
    owner = ledger.own_end("orders", "segments")
    assert owner is not None
    ids.add(owner, [KeptId("stream/orders/s1/1", None, "orders")])
    sides.move()
    assert sides.left() == 0
    assert sides.delivered("a") == [b"4"]


def test_segments_that_are_to_be_published_come_first(sides: Sides) -> None:
    consumer = sides.consumer()
    ledger = SegmentLedger(sides.engine("ledger"), lease_seconds=-1)
    owner, pair = ledger.own_end("orders", "segments"), Pair("orders", "a")
    assert owner is not None
    ledger.open_segment(owner, pair, 1, "shop-1.segment")
    ledger.advance(owner, {pair: Place(1, 10)}, {})
    with pytest.raises(SegmentError, match="set two_phase = false"):
        asyncio.run(moved(consumer))


@pytest.mark.parametrize("sides", ["lmml"], indirect=True)
def test_two_files_of_sqlite_are_refused(sides: Sides) -> None:
    with pytest.raises(TwoPhaseError, match="put the tables of both into one file"):
        sides.consumer()
