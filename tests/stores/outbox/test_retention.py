"""What was acknowledged is kept for its time, whatever becomes of the clocks."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from stores.db.engines import open_engine
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft
from stores.outbox.retention import RetentionStore


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/orders.sqlite")
    yield engine
    engine.dispose()


def keep(engine: Engine, kept: RetentionStore, contents: list[bytes]) -> None:
    log = MessageLog()
    log.create(engine)
    with engine.begin() as connection:
        kept.make(connection)
        Outbox(log).capture_many(
            connection, [Draft("orders", "a", None, each) for each in contents]
        )
        kept.keep(connection, [each.id for each in log.read_stream(connection, "orders", "a")])


def expire(engine: Engine, kept: RetentionStore) -> int:
    with engine.begin() as connection:
        return kept.expire(connection)


def test_the_time_goes_by_the_process_and_not_by_a_clock_that_is_set(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = time.monotonic()
    monkeypatch.setattr("stores.db.steady_clock.elapsed", lambda: here)
    kept = RetentionStore(engine, MessageLog(), 600)
    keep(engine, kept, [b"1"])
    # The database's clock is an hour ahead from here on; but no hour has passed.
    monkeypatch.setattr("stores.outbox.retention.Now", lambda: text("SELECT 9999999999999"))
    here += 599
    assert expire(engine, kept) == 0
    here += 2
    assert expire(engine, kept) == 1


def test_what_was_kept_by_a_clock_that_was_ahead_is_not_kept_for_ever(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(engine, RetentionStore(engine, MessageLog(), 600), [b"1", b"2"])
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE sequitur_kept SET at = at + 3600 * 1000 WHERE sequence = 1")
        )
    here = time.monotonic()
    monkeypatch.setattr("stores.db.steady_clock.elapsed", lambda: here)
    later = RetentionStore(engine, MessageLog(), 600)
    with engine.begin() as connection:
        later.make(connection)
    assert expire(engine, later) == 0
    here += 601
    assert expire(engine, later) == 2


def test_no_more_is_read_than_there_is_room_for(engine: Engine) -> None:
    kept = RetentionStore(engine, MessageLog(), 600)
    keep(engine, kept, [b"x" * 100] * 5)
    with engine.begin() as connection:

        def read(room: int) -> int:
            return len(kept.read(connection, "orders", "a", 1, 5, room))

        assert [read(room) for room in (1, 100, 101, 250, 500, 10_000)] == [1, 1, 1, 2, 5, 5]
        assert kept.read(connection, "orders", "b", 1, 5) == []


def test_what_expires_is_found_by_an_index_that_an_earlier_versions_table_gets(
    engine: Engine,
) -> None:
    kept = RetentionStore(engine, MessageLog(), 600)
    keep(engine, kept, [b"1", b"2"])
    with engine.begin() as connection:
        connection.execute(text("DROP INDEX IF EXISTS sequitur_kept_at"))
        kept.make(connection)
        explained = text(f"EXPLAIN QUERY PLAN {kept._sql['expire'].text}")
        plan = [row[3] for row in connection.execute(explained, {"before": 1, "many": 1})]
    assert any("USING INDEX sequitur_kept_at (at<?)" in step for step in plan), plan
    assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in plan), plan
