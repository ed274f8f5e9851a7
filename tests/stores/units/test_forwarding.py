"""The agent forwards what waits in order, each message once, whatever is killed or away."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.cimpl import NewTopic

from sequitur.local.process import spawn
from stores.units import (
    ForwardingAgent,
    OutgoingMessage,
    SendRefused,
    StoredProducer,
    UnitError,
)
from stores.units.forward.store import UnitStore
from tests.conftest import BrokerAddress, make_topics
from tests.stores.units.conftest import TOKEN, Destination, received
from tests.stores.units.test_paths_over_kafka import paths
from tests.stores.units.test_transactions import everything_in

pytestmark = pytest.mark.integration
Create = Callable[..., Destination]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "units.db"


@asynccontextmanager
async def forwarding(there: Destination, path: Path) -> AsyncIterator[ForwardingAgent]:
    agent, stopped = ForwardingAgent(there.name, path, there.kafka), asyncio.Event()
    task = asyncio.create_task(agent.run(stopped))
    try:
        yield agent
    finally:
        stopped.set()
        async with asyncio.timeout(60):
            await task


async def emptied(path: Path, destination: str) -> None:
    store = UnitStore(path, destination)
    try:
        async with asyncio.timeout(60):
            while store.backlog().messages:
                await asyncio.sleep(0.05)
    finally:
        store.close()


async def test_what_was_sent_before_and_after_a_reconnect_arrives_in_order_with_all_it_said(
    destination: Create, path: Path
) -> None:
    there = destination(3)
    async with StoredProducer(there.name, path) as producer:
        await producer.unit("u").send(OutgoingMessage(b"0", attributes={"kind": "é"}))
        await producer.send(OutgoingMessage(b"old", expires=0.01), unit="u")
    async with there.server(), there.consumer(mode="auto") as consumer:
        async with forwarding(there, path) as agent:
            first = await received(consumer)
            assert (first.value, first.unit, first.attributes) == (b"0", "u", {"kind": "é"})
            await emptied(path, there.name)
            assert agent.counts["forwarded"] == 2
        async with StoredProducer(there.name, path) as again:
            later = [OutgoingMessage(b"2", sort=2), OutgoingMessage(b"1", sort=1)]
            await again.unit("u").send_all(later, sort="priority")
            async with forwarding(there, path):
                await again.unit("u").send(b"3")
                rest = [await received(consumer) for _ in range(3)]
        assert [each.value for each in rest] == [b"1", b"2", b"3"]
        assert {each.member for each in rest} == {first.member}
        await consumer.close(complete=True)
        assert await everything_in(there, f"{there.name}.dead", 1) == [b"old"]


async def test_nothing_is_forwarded_twice_by_the_agent_after_one_that_ended_before_it_had_deleted(
    destination: Create, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, forget = destination(), UnitStore.forget

    def fails(*_: object) -> None:
        failing.set()
        raise OSError("the process is killed here")

    failing = asyncio.Event()
    monkeypatch.setattr("stores.units.forward.agent.AGAIN", 60.0)
    async with StoredProducer(there.name, path) as producer:
        await producer.unit("u").send_all([b"1", b"2", b"3"])
        monkeypatch.setattr(UnitStore, "forget", fails)
        async with forwarding(there, path):
            async with asyncio.timeout(60):
                while not failing.is_set():
                    await asyncio.sleep(0.05)
        monkeypatch.setattr(UnitStore, "forget", forget)
        await producer.unit("u").send(b"4")
        async with forwarding(there, path) as agent:
            await emptied(path, there.name)
            assert agent.counts["forwarded"] == 1
    assert await everything_in(there, there.name, 4) == [b"1", b"2", b"3", b"4"]


async def test_units_that_wait_go_where_the_path_service_says_and_wait_for_it(
    destination: Create, path: Path
) -> None:
    there = destination(4)
    by_path: dict[str, Any] = {"routing": "path", "token": TOKEN}
    async with StoredProducer(there.name, path) as stored:
        await stored.unit("u").send_all([b"0", b"1"])
        async with paths(there), there.producer(**by_path) as direct:
            joined = direct.unit("u")
            await joined.send(b"first")
        stopped = asyncio.Event()
        agent = ForwardingAgent(there.name, path, there.kafka, **by_path)
        task = asyncio.create_task(agent.run(stopped))
        await asyncio.sleep(0.5)
        assert not agent.counts["forwarded"]  # nobody knows where the unit lives
        async with paths(there), there.server(), there.consumer(mode="auto") as consumer:
            await emptied(path, there.name)
            await stored.unit("u").send(b"2")
            found = [await received(consumer) for _ in range(4)]
            stopped.set()
            await task
    assert [each.value for each in found] == [b"first", b"0", b"1", b"2"]
    assert len({each.member for each in found}) == 1


async def test_it_ends_when_it_is_told_to_though_a_transaction_does_not_and_sends_it_once(
    destination: Create, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, hanging, commit = destination(), asyncio.Event(), AIOKafkaProducer.commit_transaction
    monkeypatch.setattr("stores.units.forward.agent.GRACE", 0.1)

    async def hangs(*_: object) -> None:
        hanging.set()
        await asyncio.Event().wait()

    async with StoredProducer(there.name, path) as producer:
        await producer.unit("u").send_all([b"1", b"2"])
    monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", hangs)
    async with forwarding(there, path), asyncio.timeout(60):
        await hanging.wait()
    monkeypatch.setattr(AIOKafkaProducer, "commit_transaction", commit)
    async with forwarding(there, path):
        await emptied(path, there.name)
    assert await everything_in(there, there.name, 2) == [b"1", b"2"]


async def test_an_old_copy_of_a_store_is_refused(destination: Create, path: Path) -> None:
    there = destination()
    async with StoredProducer(there.name, path) as producer:
        await producer.unit("u").send(b"1")
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    async with StoredProducer(there.name, path) as producer:
        await producer.unit("u").send(b"2")
    async with forwarding(there, path):
        await emptied(path, there.name)
    for sent in (b"another 2", b"3"):
        async with StoredProducer(there.name, copy) as producer:
            await producer.unit("u").send(sent)
        with pytest.raises(UnitError, match="is an old copy: message 2"):
            await ForwardingAgent(there.name, copy, there.kafka).run(asyncio.Event())
    assert await everything_in(there, there.name, 2) == [b"1", b"2"]


@pytest.fixture
def small(broker: BrokerAddress, unique: Callable[[str], str]) -> Destination:
    """A destination that takes no message of 40 KB."""
    name = unique("small")
    make_topics(broker.address, NewTopic(name, 1, 1, config={"max.message.bytes": "40000"}))
    return Destination({"bootstrap_servers": broker.address}, name)


async def test_nothing_of_send_all_is_sent_if_the_destination_does_not_take_one_of_it(
    small: Destination,
) -> None:
    async with small.producer() as producer:
        for _ in range(2):
            with pytest.raises(SendRefused, match="too large"):
                await producer.unit("u").send_all([b"lost", random.Random(1).randbytes(60_000)])
        await producer.unit("u").send_all([b"1", b"2"])
    assert await everything_in(small, small.name, 2) == [b"1", b"2"]


async def test_what_the_destination_does_not_take_goes_to_the_dead_and_the_rest_goes_on(
    small: Destination, path: Path
) -> None:
    there, large = small, random.Random(1).randbytes(60_000)
    async with StoredProducer(there.name, path) as producer:
        await producer.unit("u").send_all([b"1", large, b"2"])
    async with forwarding(there, path) as agent:
        await emptied(path, there.name)
        assert agent.counts == {"forwarded": 2, "refused": 1}
    assert await everything_in(there, there.name, 2) == [b"1", b"2"]
    assert await everything_in(there, f"{there.name}.dead", 1) == [large]


async def test_what_the_dead_topic_does_not_take_either_is_kept_in_a_file_and_the_rest_goes_on(
    small: Destination, path: Path
) -> None:
    there = small
    dead = NewTopic(f"{there.name}.dead", 1, 1, config={"max.message.bytes": "40000"})
    make_topics(there.kafka["bootstrap_servers"], dead)
    large = [random.Random(seed).randbytes(60_000 + seed) for seed in (1, 2)]
    async with StoredProducer(there.name, path) as producer:
        await producer.unit("u").send_all([b"1", *large, b"2"])
    async with forwarding(there, path) as agent:
        await emptied(path, there.name)
        assert agent.counts == {"forwarded": 2, "refused": 2}
    assert await everything_in(there, there.name, 2) == [b"1", b"2"]
    assert await everything_in(there, dead.topic, 2) == [b"", b""]
    kept = sorted(path.parent.glob(f"{path.name}.{there.name}.[0-9]*"))
    assert [each.read_bytes() for each in kept] == large
    assert {each.stat().st_mode & 0o777 for each in kept} == {0o600}


async def test_a_killed_agent_and_a_broker_away_lose_overtake_and_double_nothing(
    destination: Create, path: Path
) -> None:
    there, each, units = destination(2), 150, 4

    def agent(broker: str) -> subprocess.Popen[bytes]:
        words = ["units", "forward", "--destination", there.name, "--store", str(path)]
        words += ["--broker", broker]
        return spawn([sys.executable, "-m", "sequitur", *words], output=log)

    def said() -> str:
        return path.with_name("agent.log").read_text()

    with path.with_name("agent.log").open("wb") as log:
        process = agent("127.0.0.1:1")  # where no broker is
        chance = random.Random(14)
        async with StoredProducer(there.name, path) as producer:
            try:
                for number in range(each):
                    names = [f"u{unit}" for unit in range(units)]
                    await asyncio.gather(
                        *(producer.send(b"%d" % number, unit=name) for name in names)
                    )
                    if number in (40, 90, 120):
                        async with asyncio.timeout(60):  # the first one says so when it has begun
                            while "cannot be forwarded now" not in said():
                                await asyncio.sleep(0.1)
                        await asyncio.sleep(chance.uniform(1.2, 2))
                        os.kill(process.pid, signal.SIGKILL)
                        process.wait()
                        process = agent(there.kafka["bootstrap_servers"])
                await emptied(path, there.name)
                async with asyncio.timeout(60):  # it says so now and then
                    while "nothing waits" not in said():
                        await asyncio.sleep(0.1)
                process.terminate()
                assert process.wait(60) == 0
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                process.wait()
    assert "cannot be forwarded now" in said()
    found: dict[str | None, list[int]] = {}
    async with there.server(), there.consumer(mode="auto", prefetch=100) as consumer:
        for _ in range(each * units):
            delivery = await received(consumer)
            found.setdefault(delivery.unit, []).append(int(delivery.value))
        assert await consumer.receive(0.5) is None
    assert found == {f"u{unit}": list(range(each)) for unit in range(units)}
