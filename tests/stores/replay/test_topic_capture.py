"""One topic's capture, over a transport in memory."""

import asyncio
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, update

from stores.db.engines import open_engine
from stores.locks.lease import LEASES
from stores.replay import Query, ReplayLog
from stores.replay.capture import TopicCapture, captured
from stores.replay.tables import POSITIONS
from stores.segments import InboundMessage, StaleOwner
from stores.segments.batching import BatchLimits
from tests.stores.segments.fake_transports import LogInbound
from topology.model.ending import end_tasks

MESSAGE = InboundMessage("moves", 1, 7, 8, b"{}", b"k", time=5)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path / 'log.db'}")
    yield engine
    engine.dispose()


def nothing(_: InboundMessage) -> tuple[None, None, dict[str, str]]:
    return None, None, {}


def test_a_copy_from_another_site_keeps_its_position_and_nothing_else_is_one() -> None:
    for header, site, position in (
        (b"jfk/moves/0/3", "jfk", "jfk/moves/0/3"),
        (b"a/b/moves/0/3", "a/b", "a/b/moves/0/3"),
        (b"jfk/gates/0/3", "ewr", "ewr/moves/1/7"),
        (b"moves/0/3", "ewr", "ewr/moves/1/7"),
        (b"moves/0/3/9000", "ewr", "ewr/moves/1/7"),
        (b"/moves/0/3", "ewr", "ewr/moves/1/7"),
        (b"jfk/moves/0/x", "ewr", "ewr/moves/1/7"),
        (b"\xff", "ewr", "ewr/moves/1/7"),
    ):
        found = captured(replace(MESSAGE, headers=(("sequitur-origin", header),)), "ewr", nothing)
        assert (found.site, found.position) == (site, position), header
    assert (found.time, found.key, found.value, found.partition) == (5, b"k", b"{}", 1)


async def test_who_was_replaced_keeps_nothing_more(engine: Engine) -> None:
    log = ReplayLog(engine)
    log.create()
    inbounds = [LogInbound("moves"), LogInbound("moves")]
    for n in range(60):
        for each in inbounds:
            each.add(n % 2, b"%d" % n)
    limits = BatchLimits(count=20)
    old, new = (TopicCapture(log, each, nothing, site="ewr", limits=limits) for each in inbounds)
    assert await old.step() == 20
    assert await new.step() == 0
    with engine.begin() as connection:  # its lease is over
        connection.execute(update(LEASES).values(until=0))
    assert await new.step() == 20
    assert old._owner is not None
    old._owner._renewed = math.inf  # as one that was stopped between two looks at its lease
    with pytest.raises(StaleOwner):
        await old.step()
    while await new.step():
        pass
    found = log.page(Query()).messages
    for partition in (0, 1):
        numbers = [int(each.value or b"") for each in found if each.partition == partition]
        assert numbers == list(range(partition, 60, 2))
    assert log.positions("moves") == {0: 30, 1: 30}
    await old.stop()
    await new.stop()


async def test_a_log_that_was_set_back_is_filled_from_where_it_is_and_no_hole_is_left(
    engine: Engine,
) -> None:
    """As a database that has lost its last transactions when another one took over for it."""
    log, inbound = ReplayLog(engine), LogInbound("moves")
    log.create()
    for n in range(60):
        inbound.add(n % 2, b"%d" % n)
    work = TopicCapture(log, inbound, nothing, site="ewr", limits=BatchLimits(count=20))
    assert await work.step() == 20
    before = log.positions("moves")
    with engine.begin() as connection:
        connection.execute(update(POSITIONS).values(position=POSITIONS.c.position - 4))
    with pytest.raises(StaleOwner, match="set it back"):
        await work.step()
    while await work.step():
        pass
    again = [each for each in log.page(Query(), 100).messages if each.id > 20]
    for number, at in before.items():
        offsets = [each.offset for each in again if each.partition == number]
        assert offsets == list(range(at - 4, 30))
    await work.stop()


async def test_a_disk_that_is_full_is_waited_for_and_each_message_kept_once(engine: Engine) -> None:
    log, inbound, pages = ReplayLog(engine), LogInbound("moves"), [2**30]
    log.create()
    for n in range(400):
        inbound.add(n % 2, b"%d" % n + b" " * 2_000)

    @event.listens_for(engine, "checkout")
    def limit(connection: Any, *_: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages[0]}")

    work = TopicCapture(log, inbound, nothing, site="ewr", limits=BatchLimits(count=20))
    assert await work.step() == 20
    pages[0] = 1  # as many as there are
    running = asyncio.create_task(work.run(pause=0.01, retry=0.01))
    while "full" not in (work.failing or ""):
        await asyncio.sleep(0.01)
        assert not running.done()
    assert sum(log.positions("moves").values()) == log.count(Query()) < 400
    pages[0] = 2**30
    while log.count(Query()) < 400:
        await asyncio.sleep(0.01)
        assert not running.done()
    await end_tasks(running)
    found = [(each.partition, each.offset) for each in log.page(Query(), 1_000).messages]
    assert sorted(found) == [(number, n) for number in (0, 1) for n in range(200)]
    for partition in (0, 1):
        assert [n for number, n in found if number == partition] == list(range(200))
