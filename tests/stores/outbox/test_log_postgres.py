"""The message log in PostgreSQL keeps the contract, with transactions that end in any order."""

import random
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from stores.message import Message
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import START, Position
from tests.contracts.message_log import MessageLogContract
from tests.contracts.message_log.base import draft, places, read_on

pytestmark = pytest.mark.integration


@pytest.fixture
def log(engine: Engine) -> MessageLog:
    log = MessageLog()
    log.create(engine)
    return log


def append(log: MessageLog, connection: Connection, *streams: str) -> None:
    Outbox(log).capture_many(connection, [draft(stream) for stream in streams])


class TestPostgres(MessageLogContract):
    pass


class TestPostgresSchema(MessageLogContract):
    @pytest.fixture(autouse=True)
    def _log(self, engine: Engine) -> None:
        self.db, name = engine, f"Mine{uuid4().hex}"
        with engine.begin() as connection:
            connection.execute(text(f'CREATE SCHEMA "{name}"'))
        self.log = MessageLog(schema=name)
        self.log.create(engine)
        self.outbox = Outbox(self.log, notify=False)


class Reader:
    """Reads on and on, one page at a time."""

    def __init__(self, engine: Engine, log: MessageLog, limit: int = 1000) -> None:
        self.engine, self.log, self.limit = engine, log, limit
        self.position = START
        self.found: list[Message] = []

    def read(self) -> list[Message]:
        """What came since; a new position each time, as over restarts."""
        new: list[Message] = []
        with self.engine.connect() as connection:
            while True:
                position = Position.loads(self.position.dumps())
                page = self.log.read_after(connection, position, self.limit)
                self.position = page.position
                if not page.messages:
                    break
                new += page.messages
        self.found += new
        return new


@pytest.mark.parametrize("limit", [1, 2, 3, 1000])
def test_a_transaction_that_ends_late_is_not_passed_over(
    engine: Engine, log: MessageLog, limit: int
) -> None:
    reader = Reader(engine, log, limit)
    with engine.connect() as slow, engine.connect() as never:
        append(log, slow, "slow", "slow", "slow")
        append(log, never, "never")
        for stream in "ab":
            with engine.begin() as quick:
                append(log, quick, stream)
            # What is committed does not wait for what is not.
            assert places(reader.read()) == [(stream, 1)]
        append(log, slow, "slower", "slower")
        slow.commit()
        with engine.begin() as quick:
            append(log, quick, "slow", "c")
        never.rollback()
    assert places(reader.read()) == [
        ("slow", 1), ("slow", 2), ("slow", 3), ("slower", 1), ("slower", 2), ("slow", 4), ("c", 1),
    ]  # fmt: skip
    assert reader.read() == []


def test_more_end_late_between_the_reads_of_what_ended_late(
    engine: Engine, log: MessageLog
) -> None:
    reader = Reader(engine, log)
    with engine.connect() as first, engine.connect() as second, engine.connect() as third:
        for number, connection in enumerate((first, second, third)):
            append(log, connection, *(f"{number}" for _ in range(4)))
        with engine.begin() as quick:
            append(log, quick, "quick")
        assert places(reader.read()) == [("quick", 1)]
        second.commit()
        with engine.connect() as connection:
            # Two of four, and then what comes before and after them is committed too.
            page = log.read_after(connection, reader.position, 2)
            assert places(page.messages) == [("1", 1), ("1", 2)]
        first.commit()
        third.commit()
    reader.position = page.position
    assert sorted(places(reader.read())) == sorted(
        [("1", 3), ("1", 4), *((stream, number) for stream in "02" for number in (1, 2, 3, 4))]
    )


@pytest.mark.parametrize("seed", range(12))
def test_transactions_in_any_order_are_read_once_and_in_order(
    engine: Engine, log: MessageLog, seed: int
) -> None:
    chance = random.Random(seed)
    reader = Reader(engine, log, chance.choice([1, 2, 5, 50]))
    streams = [f"s{number}" for number in range(9)]
    open_ones: dict[Connection, set[str]] = {}
    committed = 0
    for _ in range(150):
        step = chance.random()
        free = [s for s in streams if not any(s in held for held in open_ones.values())]
        if step < 0.2 and len(open_ones) < 5:
            open_ones[engine.connect()] = set()
        elif step < 0.6 and open_ones:
            connection = chance.choice(list(open_ones))
            may = free + sorted(open_ones[connection])
            if may:
                chosen = chance.choices(may, k=chance.randrange(1, 4))
                append(log, connection, *chosen)
                open_ones[connection].update(chosen)
        elif step < 0.8 and open_ones:
            connection = chance.choice(list(open_ones))
            if chance.random() < 0.7:
                connection.commit()
            else:
                connection.rollback()
            connection.close()
            del open_ones[connection]
        elif step < 0.9:
            reader.read()
        else:
            with engine.connect() as connection:
                page = log.read_after(connection, reader.position, reader.limit)
            reader.position = page.position
            reader.found += page.messages
    for connection in open_ones:
        connection.commit()
        connection.close()
    reader.read()
    with engine.connect() as connection:
        last = {stream: log.last(connection, "orders", stream) for stream in streams}
        committed = len(read_on(log, connection))
    assert committed == sum(last.values()) == len(reader.found)
    for stream in streams:
        # Every number once, and by number, whenever it was read.
        assert [m.sequence for m in reader.found if m.stream == stream] == [
            *range(1, last[stream] + 1)
        ]


def test_an_open_transaction_does_not_hold_up_writers_of_other_streams(
    engine: Engine, log: MessageLog
) -> None:
    with engine.connect() as slow, engine.connect() as other:
        append(log, slow, "a")
        other.execute(text("SET lock_timeout = '1s'"))
        append(log, other, "b", "new")
        other.commit()
        append(log, other, "b")
        with pytest.raises(OperationalError, match="lock timeout"):
            append(log, other, "a")
        other.rollback()
        slow.rollback()
        append(log, other, "a")
        other.commit()
    with engine.connect() as connection:
        assert log.last(connection, "orders", "a") == 1


@pytest.mark.parametrize("streams", [1, 5, 500])
def test_16_writers_leave_no_gap(engine: Engine, log: MessageLog, streams: int) -> None:
    def write(writer: int) -> int:
        chance, done = random.Random(writer), 0
        with engine.connect() as connection:
            for _ in range(25):
                some = [f"s{chance.randrange(streams)}" for _ in range(chance.randrange(1, 4))]
                append(log, connection, *some)
                if chance.random() < 0.2:
                    connection.rollback()
                else:
                    connection.commit()
                    done += len(some)
        return done

    reader = Reader(engine, log, 7)
    with ThreadPoolExecutor(16) as pool:
        futures = [pool.submit(write, writer) for writer in range(16)]
        while not all(future.done() for future in futures):
            reader.read()
        written = sum(future.result() for future in futures)
    reader.read()
    assert len(reader.found) == written
    for stream in {message.stream for message in reader.found}:
        sequences = [m.sequence for m in reader.found if m.stream == stream]
        assert sequences == [*range(1, len(sequences) + 1)]


def test_two_that_make_the_tables_at_once_do_not_get_in_each_other_s_way(engine: Engine) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: MessageLog("both").create(engine), range(8)))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT version FROM both_layout")).all() == [(1,)]


def test_reading_a_backlog_goes_by_the_indexes(engine: Engine, log: MessageLog) -> None:
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO sequitur_messages (topic, stream, sequence, content, captured_at) "
                "SELECT 'orders', 's' || n % 100, n / 100, '', 0 FROM generate_series(1, 30000) n"
            )
        )
        connection.execute(text("ANALYZE sequitur_messages"))

    def scans(connection: Connection) -> int:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
        connection.rollback()
        counter = (
            "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'sequitur_messages' "
            "AND schemaname = current_schema()"
        )
        found = int(connection.execute(text(counter)).scalar_one())
        connection.rollback()
        return found

    with engine.connect() as connection:
        before = scans(connection)
        page = log.read_after(connection, START, 500)
        for _ in range(12):  # beyond the driver's and the server's change of plans
            page = log.read_after(connection, page.position, 500)
            assert len(page.messages) == 500
            log.acknowledge(connection, page)
        assert scans(connection) == before
