"""Capture whose broker or database is away tries again, and holds no more for it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from sqlalchemy import Engine
from sqlalchemy.exc import OperationalError

from sequitur.replay import capture, replay_file
from sequitur.replay.capture import Capture
from sequitur.replay.pages import CapturePages
from sequitur.replay.replay_file import ReplayFile, read_replay_file
from stores.db.engines import open_engine
from stores.replay import ReplayError, ReplayLog
from stores.replay.capture import TopicCapture
from topology.model.ending import end_tasks

TRIES = 5


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """All that are opened."""
    found: list[Engine] = []

    def opened(*given: Any, **more: Any) -> Engine:
        found.append(open_engine(*given, **more))
        return found[-1]

    monkeypatch.setattr(replay_file, "open_engine", opened)
    monkeypatch.setattr(capture, "_RETRY", 0.01)
    return found


@pytest.fixture
def file(tmp_path: Path) -> ReplayFile:
    path = tmp_path / "replay.toml"
    database = f"sqlite:///{tmp_path}/log.db"
    path.write_text(f'[replay]\ndatabase = "{database}"\nsite = "ewr"\ntopics = ["moves"]\n')
    return read_replay_file(path)


async def test_while_the_broker_is_away_there_is_one_engine(
    file: ReplayFile, engines: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = asyncio.Event()
    tries: list[None] = []

    class Away:
        def __init__(self, **kafka: Any) -> None:
            """There is nobody to talk to."""

        async def start(self) -> None:
            tries.append(None)
            if len(tries) == TRIES:
                stopped.set()
            raise KafkaConnectionError

        async def stop(self) -> None:
            """It never started."""

    monkeypatch.setattr(capture, "AIOKafkaConsumer", Away)
    await asyncio.wait_for(Capture(file, {}).run(stopped), 30)
    assert (len(tries), len(engines)) == (TRIES, 1)
    engines[0].dispose()


async def test_while_the_database_takes_nothing_no_connection_stays(
    file: ReplayFile, engines: list[Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = asyncio.Event()

    def create(log: ReplayLog) -> None:
        if len(engines) == TRIES:
            stopped.set()
        with log.engine.connect():
            raise OperationalError("CREATE TABLE", {}, Exception("read only"))

    monkeypatch.setattr(ReplayLog, "create", create)
    await asyncio.wait_for(Capture(file, {}).run(stopped), 30)
    assert [each.pool.checkedin() for each in engines] == [0] * TRIES  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ReplayError("the topic was made anew"), "moves: the topic was made anew"),
        (ValueError("x"), "moves: a fault of Sequitur's: ValueError('x')"),
    ],
)
async def test_who_captures_a_topic_that_waits_for_somebody_is_not_ready(
    file: ReplayFile, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    async def run(work: TopicCapture, **more: Any) -> None:
        raise error

    monkeypatch.setattr(TopicCapture, "run", run)
    log, captured = file.log(), Capture(file, {})
    pages = CapturePages(captured, None, log.engine)
    running = asyncio.create_task(captured._capture(log, "moves"))
    try:
        async with asyncio.timeout(30):
            while told not in await pages.troubles():
                await asyncio.sleep(0.01)
    finally:
        await end_tasks(running)
        await pages.stop()
        log.engine.dispose()
