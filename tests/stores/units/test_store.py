"""What waits on the sender's disk: whole, in order, bounded, and forwarded by one alone."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from stores.units import (
    ForwardingAgent,
    OutgoingMessage,
    SendRefused,
    StoredProducer,
    UnitError,
    unit_by,
    unit_named,
    unit_per_session,
)
from stores.units.forward.store import LEAST, PART, UnitStore
from stores.units.naming import named_at
from tests.examples import some


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "waiting" / "units.db"


def values(store: UnitStore, limit: int = 100) -> list[bytes]:
    return [each.content for each in store.read(limit)]


async def test_what_is_sent_together_is_stored_and_read_whole_or_not_at_all(path: Path) -> None:
    store = UnitStore(path, "orders")
    async with StoredProducer("orders", path) as producer:
        unit = producer.unit("u")
        await unit.send(b"before")
        with pytest.raises(ValueError, match="header of units"):
            await unit.send_all([b"lost", OutgoingMessage(b"bad", attributes={"unit": "x"})])
        with pytest.raises(ValueError, match="cannot wait in a store"):
            await unit.send_all([b"lost", bytes(1_000_001)])
        with pytest.raises(ValueError, match="several times"):
            await unit.send_all([b""] * 1_001)
        later = [OutgoingMessage(b"%d" % sort, sort=sort) for sort in (2, 0, 1)]
        await unit.send_all(later, sort="priority")
        await unit.send(b"after")
    assert values(store, 1) == [b"before"]
    assert values(store, 2) == [b"before"]
    assert values(store, 4) == [b"before", b"0", b"1", b"2"]
    store.forget(store.read(1))
    assert values(store, 3) == [b"0", b"1", b"2"]
    assert values(store, 1) == values(store, 2) == [b"0", b"1", b"2"]
    assert [each.kind for each in store.read(9)] == [PART, PART, None, None]
    store.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("forward"), st.integers(1, 6)),
        st.just(("reopen", 0)),
    ),
    max_size=12,
)


@settings(max_examples=some(25))
@given(STEPS)
def test_whatever_is_appended_and_forwarded_order_is_kept_and_nothing_is_torn(
    steps: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        path, waiting, sent = Path(folder) / "units.db", list[list[bytes]](), 0
        store = UnitStore(path, "orders")
        for what, number in steps:
            if what == "append":
                whole = [b"%d" % (sent + each) for each in range(number)]
                sent += number
                store.append([(OutgoingMessage(each), "u") for each in whole])
                waiting.append(whole)
            elif what == "forward":
                found = store.read(number)
                left = [each.content for each in found]
                while left:  # as many as were asked for, unless one was torn, or more
                    whole = waiting.pop(0)
                    assert left[: len(whole)] == whole
                    del left[: len(whole)]
                assert not waiting or len(found) + len(waiting[0]) > number
                store.forget(found)
            else:
                store.close()
                store = UnitStore(path, "orders")
            count = sum(map(len, waiting))
            backlog = store.backlog()
            assert (backlog.forwarded, backlog.messages) == (sent - count, count)
        assert values(store) == [each for whole in waiting for each in whole]
        store.close()


async def test_send_all_sorts_by_time_by_priority_or_by_a_function(path: Path) -> None:
    store = UnitStore(path, "orders")
    given = [
        OutgoingMessage(b"a", sort=2, not_before=3.0),
        OutgoingMessage(b"b", sort=3, not_before=1.0),
        OutgoingMessage(b"c", sort=1),
    ]
    async with StoredProducer("orders", path) as producer:
        for sort in ("time", "priority", lambda each: -each.sort, None):
            await producer.unit("u").send_all(given, sort=sort)
        with pytest.raises(ValueError, match="use 'time', 'priority'"):
            await producer.unit("u").send_all(given, sort="size")
    assert b"".join(values(store)) == b"cba" + b"cab" + b"bac" + b"abc"
    store.close()


async def test_a_full_store_takes_nothing_more_until_something_is_forwarded(path: Path) -> None:
    async with StoredProducer("orders", path, size=LEAST) as producer:
        unit, sent = producer.unit("u"), 0

        async def fill() -> None:
            nonlocal sent
            for sent in range(1_000):  # noqa: B007
                await unit.send_all([bytes(50_000), bytes(50_000)])

        with pytest.raises(SendRefused, match=r"is full, and nothing was taken.*units forward"):
            await fill()
        assert path.stat().st_size <= LEAST
        store = UnitStore(path, "orders")
        assert store.backlog().messages == 2 * sent
        store.forget(store.read(2))
        await unit.send_all([bytes(50_000), bytes(50_000)])
        assert store.backlog().messages == 2 * sent
        store.close()
    with pytest.raises(ValueError, match="at least"):
        UnitStore(path, "orders", 1)


@pytest.mark.integration
async def test_several_processes_append_and_each_keeps_its_order(path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from stores.units import StoredProducer\n"
        "async def send():\n"
        "    async with StoredProducer('orders', sys.argv[1]) as producer:\n"
        "        for number in range(50):\n"
        "            await producer.send(b'%d' % number, unit=sys.argv[2])\n"
        "asyncio.run(send())\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in ("a", "b", "c")
    ]
    assert [each.wait(240) for each in running] == [0, 0, 0]
    store = UnitStore(path, "orders")
    found = store.read(1_000)
    assert [each.sequence for each in found] == list(range(1, 151))
    for name in ("a", "b", "c"):
        mine = [int(each.content) for each in found if each.headers["unit"] == name]
        assert mine == list(range(50))
    store.close()


def test_a_store_is_for_its_user_alone_and_another_file_is_told_of(tmp_path: Path) -> None:
    path = tmp_path / "units.db"
    store = UnitStore(path, "orders")
    store.append([(OutgoingMessage(b"secret"), "u")])
    for each in tmp_path.iterdir():
        assert not each.stat().st_mode & 0o077, each
    store._engine.dispose()
    impatient = "PRAGMA busy_timeout=1"
    event.listen(store._engine, "connect", lambda connection, _: connection.execute(impatient))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SendRefused, match=r"cannot be written.*locked"):
            store.append([(OutgoingMessage(b"1"), "u")])
    store.close()
    (tmp_path / "letter.txt").write_text("Call me Ishmael. " * 100)
    for place in (tmp_path / "letter.txt", tmp_path):
        with pytest.raises(UnitError, match="cannot be used as a store"):
            UnitStore(place, "orders")


def test_what_waits_survives_a_loss_of_power(path: Path) -> None:
    store = UnitStore(path, "orders")
    with store._engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        assert driver.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert driver.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    store.close()


@pytest.mark.integration
def test_one_agent_forwards_and_a_killed_one_leaves_the_store_free(path: Path) -> None:
    store = UnitStore(path, "orders")
    code = (
        "import sys, time\n"
        "from stores.units.forward.store import UnitStore\n"
        "with UnitStore(sys.argv[1], 'orders').forwarding():\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(UnitError, match="another agent"), store.forwarding():
            pass
        os.kill(process.pid, signal.SIGKILL)
    with store.forwarding():
        pass
    store.close()


async def test_destinations_of_one_file_are_apart_and_a_position_outlives_its_messages(
    path: Path,
) -> None:
    orders, bills = UnitStore(path, "orders"), UnitStore(path, "bills")
    orders.append([(OutgoingMessage(b"1"), "u")])
    orders.append([(OutgoingMessage(b"2"), None)])
    bills.append([(OutgoingMessage(b"3"), "u")])
    assert (values(orders), values(bills)) == ([b"1", b"2"], [b"3"])
    assert orders.name != bills.name == UnitStore(path, "bills").name
    assert orders.backlog().forwarded == 0
    began = time.time()
    assert began - 60 < (orders.backlog().since or 0.0) <= began
    orders.forget(orders.read(1))
    assert (orders.backlog().forwarded, orders.backlog().messages) == (1, 1)
    orders.forget(orders.read(1))
    assert (orders.backlog().forwarded, orders.backlog().since) == (2, None)
    orders.close()
    bills.close()


async def test_a_stored_producer_names_units_by_application_system_and_administration(
    path: Path,
) -> None:
    async def name_of(message: bytes, **more: object) -> str | None:
        async with StoredProducer("orders", path, **more) as producer:  # type: ignore[arg-type]
            await producer.send(message)
        found = store.read(1)
        store.forget(found)
        return found[0].headers.get("unit")

    store = UnitStore(path, "orders")
    assert await name_of(b"1") is None
    assert await name_of(b"1", default=unit_named("all")) == "all"
    assert named_at(await name_of(b"1", default=unit_per_session()) or "") is not None
    by = unit_by(lambda message: message.value.decode())
    assert await name_of(b"order-7", default=by) == "order-7"
    async with StoredProducer("orders", path, default=by) as producer:
        unit = producer.unit()
        assert named_at(unit.name) is not None
        await unit.leave()
        with pytest.raises(SendRefused, match="has left unit"):
            await unit.send(b"1")
        await asyncio.gather(*(producer.send(b"%d" % number) for number in range(9)))
    with pytest.raises(SendRefused, match="is closed"):
        await producer.send(b"1")
    assert values(store) == [b"%d" % number for number in range(9)]
    store.close()


async def test_an_agent_whose_disk_is_full_tries_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried, stopped = 0, asyncio.Event()

    async def forward(*_: object) -> None:
        nonlocal tried
        if tried := tried + 1:
            if tried == 2:
                return stopped.set()
            raise OperationalError("DELETE", {}, sqlite3.OperationalError("disk is full"))

    def fails(*_: object) -> None:
        raise OperationalError("SELECT", {}, sqlite3.OperationalError("disk is full"))

    monkeypatch.setattr("stores.units.forward.agent.AGAIN", 0.01)
    monkeypatch.setattr(ForwardingAgent, "_forward", forward)
    monkeypatch.setattr(UnitStore, "backlog", fails)
    async with asyncio.timeout(60):
        await ForwardingAgent("orders", path, {}).run(stopped)
    assert tried == 2


def test_what_is_forwarded_at_once_has_bounded_bytes_and_is_whole(path: Path) -> None:
    store = UnitStore(path, "orders")
    for number in range(40):
        store.append([(OutgoingMessage(b"%02d" % number + bytes(98)), None)])
    store.append([(OutgoingMessage(bytes(100)), None)] * 30)
    assert len(store.read(250, 1_000)) == 10
    store.forget(store.read(40))
    assert len(store.read(250, 1_000)) == 30
    assert [each.kind for each in store.read(1, 1)] == [PART] * 29 + [None]


def test_a_path_that_would_be_read_as_a_query_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without a question mark"):
        UnitStore(tmp_path / "what?mode=ro", "orders")
    assert list(tmp_path.iterdir()) == []


async def test_a_producer_that_was_closed_may_be_started_again(path: Path) -> None:
    producer = StoredProducer("orders", path)
    for content in (b"1", b"2"):
        await producer.start()
        await producer.send(content)
        await producer.close()
        with pytest.raises(SendRefused, match="start it first"):
            await producer.send(b"lost")
    await producer.close()
    assert values(UnitStore(path, "orders")) == [b"1", b"2"]
