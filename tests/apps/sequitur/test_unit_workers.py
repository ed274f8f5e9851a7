"""A topology consumes a destination of units: effects are committed with the completion."""

import asyncio
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaConsumer

from sequitur.local.process import spawn
from sequitur.units.worker import UnitWorkers, stage_for_units
from stores.units import QueueSettings, UnitAdministration, UnitError
from tests.conftest import BrokerAddress
from tests.stores.units.conftest import TOKEN, Destination
from tests.stores.units.test_paths_over_kafka import paths
from topology import DeclarationError, Emit, Table, Topology, Upsert, retry, wait_and_commit

pytestmark = pytest.mark.integration
Create = Callable[..., str]
BILLS = Table("bills", {"number": int, "unit": str}, {})


@pytest.fixture
def there(broker: BrokerAddress, topic: Create) -> Destination:
    return Destination({"bootstrap_servers": broker.address}, topic("units", 2))


@asynccontextmanager
async def working(there: Destination, shop: Topology) -> AsyncIterator[None]:
    stopped = asyncio.Event()
    workers = UnitWorkers(stage_for_units(shop, "billing"), there.group, there.kafka, TOKEN)
    task = asyncio.create_task(workers.run(stopped))
    try:
        yield
    finally:
        stopped.set()
        async with asyncio.timeout(90):
            await task


async def records_of(there: Destination, topic: str, count: int) -> dict[bytes, list[Any]]:
    """Key → the committed records of a topic, once there are so many, and a moment later."""
    consumer = AIOKafkaConsumer(
        topic, **there.kafka, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    try:
        found: list[Any] = []
        async with asyncio.timeout(90):
            while len(found) < count:
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += records
        for records in (await consumer.getmany(timeout_ms=500)).values():
            found += records
    finally:
        await consumer.stop()
    by_key: dict[bytes, list[Any]] = defaultdict(list)
    for record in found:
        by_key[record.key].append(record)
    return by_key


async def test_what_a_handler_yields_is_sent_once_with_the_completion_whatever_fails(
    there: Destination, topic: Create, unique: Callable[[str], str], create_topics: Any
) -> None:
    bills, onward = topic("bills", 2), topic("onward", 2)
    shop, units, each = Topology(unique("shop")), 4, 12
    busy: set[str] = set()
    failures = Counter[str]()

    @shop.parallel("billing", topic=there.name, workers=6, tables=[BILLS], emits=[bills, onward])
    async def bill(event: Any) -> AsyncIterator[Any]:
        assert event.stream not in busy
        busy.add(event.stream)
        number = int(event.content)
        yield Emit(bills, event.stream, b"%d" % number)
        await asyncio.sleep(0.002)
        busy.discard(event.stream)
        if number % 5 == 3 and failures[event.idempotency_key] < 2:
            failures[event.idempotency_key] += 1
            raise TimeoutError("the printer is busy")
        yield Upsert("bills", {"number": number, "unit": event.stream}, {})
        headers = (("unit", event.stream.encode()), ("kind", b"bill"))
        yield Emit(onward, None, b"%d" % number, headers)
        if number == each - 1:
            yield Emit(bills, event.stream, None)

    output = stage_for_units(shop, "billing").view.output
    create_topics({output: 2})
    allowed = frozenset({bills, onward, output})
    names = [f"u{unit}" for unit in range(units)]
    async with there.server(outputs=allowed), there.producer() as producer, working(there, shop):
        for number in range(each):
            await asyncio.gather(*(producer.unit(name).send(b"%d" % number) for name in names))
        sent = await records_of(there, bills, units * (each + 1))
        rows = await records_of(there, output, units * each)
        further = await records_of(there, onward, units * each)
    in_order = [b"%d" % number for number in range(each)]
    keys = {name.encode() for name in names}
    assert sent.keys() == rows.keys() == further.keys() == keys
    for key in keys:
        assert [record.value for record in sent[key]] == [*in_order, None]
        assert [record.value for record in further[key]] == in_order
        assert dict(further[key][0].headers) == {"unit": key, "kind": b"bill"}
        changes = [orjson.loads(record.value) for record in rows[key]]
        assert [c["changes"][0]["key"]["number"] for c in changes] == list(range(each))
        assert sorted(c["sequence"] for c in changes) == [c["sequence"] for c in changes]
    assert sorted(failures.values()) == [2] * (2 * units)


async def test_a_unit_whose_handler_fails_to_its_limit_is_parked_and_others_go_on(
    there: Destination, topic: Create
) -> None:
    bills, elsewhere = topic("bills"), topic("elsewhere")
    shop = Topology("shop")

    @shop.parallel("billing", topic=there.name, workers=2, emits=[bills, elsewhere])
    def bill(event: Any) -> Iterator[Emit]:
        yield Emit(bills, event.stream, event.content)
        if event.stream == "bad":
            raise TimeoutError("the printer is on fire")
        if event.stream == "refused":
            yield Emit(elsewhere, event.stream, event.content)

    limited = QueueSettings(redelivery_limit=1)
    allowed = frozenset({bills})
    async with there.server(outputs=allowed, queue=limited), there.producer() as producer:
        for name in ("bad", "refused", "good"):
            await producer.unit(name).send_all([b"1", b"2"])
        async with (
            working(there, shop),
            UnitAdministration(there.name, there.group, there.kafka, TOKEN) as administration,
        ):
            reasons = {}
            async with asyncio.timeout(90):
                for name in ("bad", "refused"):
                    while name not in reasons:
                        found = await administration.units(administration.member(name), name)
                        if found and found[0]["state"] == "parked":
                            reasons[name] = found[0]["reason"]
                        await asyncio.sleep(0.05)
            sent = await records_of(there, bills, 2)
    assert "the printer is on fire" in reasons["bad"]
    assert "may not send to" in reasons["refused"]
    assert {k: [each.value for each in v] for k, v in sent.items()} == {b"good": [b"1", b"2"]}


async def test_the_command_works_and_a_killed_one_loses_and_doubles_nothing(
    there: Destination, topic: Create, tmp_path: Path
) -> None:
    bills, units, each = topic("bills", 2), 6, 30
    (tmp_path / "till.py").write_text(
        "import asyncio\nfrom topology import Emit, Topology\ntill = Topology('till')\n"
        f"@till.parallel('billing', topic={there.name!r}, workers=4, emits=[{bills!r}])\n"
        "async def bill(event):\n"
        "    await asyncio.sleep(0.02)\n"
        f"    yield Emit({bills!r}, event.stream, event.content)\n"
    )
    words = ["units", "work", "--topology", "till:till", "--name", "billing"]
    words += ["--group", there.group, "--broker", there.kafka["bootstrap_servers"]]
    with (tmp_path / "work.log").open("wb") as log:

        def work() -> subprocess.Popen[bytes]:
            return spawn(
                [sys.executable, "-m", "sequitur", *words],
                cwd=tmp_path, output=log, env={**os.environ, "UNITS_TOKEN": TOKEN},
            )  # fmt: skip

        victim, other = work(), work()
        try:
            allowed = frozenset({bills})
            async with there.server(outputs=allowed, lease=1.0), there.producer() as producer:
                for number in range(each):
                    names = [f"u{unit}" for unit in range(units)]
                    await asyncio.gather(*(producer.unit(n).send(b"%d" % number) for n in names))
                await records_of(there, bills, 10)
                victim.kill()
                sent = await records_of(there, bills, units * each)
                other.terminate()
                assert await asyncio.to_thread(other.wait, 240) == 0
        finally:
            for process in (victim, other):
                process.kill()
                process.wait()
    in_order = [b"%d" % number for number in range(each)]
    assert {key: [r.value for r in found] for key, found in sent.items()} == {
        f"u{unit}".encode(): in_order for unit in range(units)
    }, (tmp_path / "work.log").read_text()


async def test_row_changes_of_units_that_may_move_are_refused(there: Destination) -> None:
    shop = Topology("shop")
    shop.parallel("billing", topic=there.name, workers=1, tables=[BILLS], handler=lambda event: ())
    async with paths(there):
        workers = UnitWorkers(stage_for_units(shop, "billing"), there.group, there.kafka, TOKEN)
        with pytest.raises(UnitError, match="cannot write to tables"):
            await workers.run(asyncio.Event())


def test_a_stage_that_asks_for_what_units_cannot_do_is_refused() -> None:
    shop = Topology("shop")
    options: dict[str, dict[str, Any]] = {
        "ordered": {"commit": "arrival"},
        "older": {"older": wait_and_commit()},
        "retried": {"error": retry(3, 1)},
    }
    for name, option in options.items():
        shop.parallel(name, topic=f"of-{name}", workers=2, handler=lambda event: (), **option)
    shop.parallel("stateful", topic="s", workers=2, handler=lambda event, state: ())
    for name, why in {
        "ordered": "an order of their own",
        "older": "an order of their own",
        "retried": "leave error out",
        "stateful": "keep the state in SQL",
        "missing": "has no parallel",
    }.items():
        with pytest.raises(DeclarationError, match=why):
            stage_for_units(shop, name)
