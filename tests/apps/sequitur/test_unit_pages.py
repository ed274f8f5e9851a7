"""What a unit server answers about itself."""

import asyncio
from collections.abc import Callable

import pytest

from sequitur.units.pages import UnitPages
from stores.units import UnitAdministration
from tests.apps.sequitur.relay.parts import until
from tests.conftest import BrokerAddress
from tests.stores.units.conftest import TOKEN, Destination, received

pytestmark = pytest.mark.integration


async def test_a_server_s_figures_and_what_it_does_not_do(
    broker: BrokerAddress, topic: Callable[..., str]
) -> None:
    there = Destination({"bootstrap_servers": broker.address}, topic("units", 1))
    async with (
        there.server() as server,
        there.producer() as producer,
        there.consumer() as consumer,
        UnitAdministration(there.name, there.group, there.kafka, TOKEN, wait=120) as admin,
    ):
        pages = UnitPages(server)
        await until(lambda: 0 in server.owners)
        assert await pages.troubles() == []
        await producer.unit("a").send_all([b"1", b"2"])
        await (await received(consumer)).done()
        await received(consumer)
        await until(lambda: server.owners[0].queue.messages == 1)
        await asyncio.gather(pages.troubles(), pages.measure())
        found = {
            " ".join((sample.name, *sample.labels.values())): sample.value
            for family in pages.registry.collect()
            for sample in family.samples
        }
        assert found["sequitur_units_messages 0"] == 1
        assert found["sequitur_units_sessions 0"] == 1
        assert found["sequitur_units_outcomes_total 0 acknowledged"] == 1
        assert f"sequitur_units_lag_records {there.name} 0" in found
        await admin.act("pause", 0, by="an operator", reason="a look")
        assert await pages.troubles() == ["member 0 is paused"]
        await admin.act("resume", 0, by="an operator", reason="looked")
        await pages.stop()
