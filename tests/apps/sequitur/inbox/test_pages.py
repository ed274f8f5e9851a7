"""What an inbox's process answers about itself."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from sequitur.inbox.feed import Feed
from sequitur.inbox.interpret import relayed
from sequitur.inbox.pages import InboxPages
from stores.db.engines import open_engine
from stores.inbox import Inbox
from stores.message import Message
from tests.apps.sequitur.relay.parts import until
from tests.conftest import BrokerAddress
from topology.monitoring import Pages


async def figures(pages: Pages) -> dict[str, float]:
    await asyncio.gather(pages.troubles(), pages.measure())
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in pages.registry.collect()
        for sample in family.samples
    }


async def test_the_figures_are_what_is_in_the_inbox(tmp_path: Path) -> None:
    inbox = Inbox(open_engine(f"sqlite:///{tmp_path}/w.sqlite"))
    pages = InboxPages(inbox)
    messages = [Message("orders", "a", n, "Placed", b"x") for n in (1, 3, 3, 4)]
    pages.received(inbox.receive(messages), 0.5)
    found = await figures(pages)
    assert found["sequitur_inbox_messages_total stored"] == 3
    assert found["sequitur_inbox_messages_total duplicates"] == 1
    assert found["sequitur_inbox_messages"] == 3
    assert found["sequitur_inbox_messages_behind_gaps"] == 2
    assert 0 <= found["sequitur_inbox_oldest_gap_seconds"] < 60
    assert found["sequitur_inbox_receive_seconds_sum"] == 0.5
    assert await pages.troubles() == []
    inbox.engine.dispose()


@pytest.mark.integration
async def test_a_feed_s_lag_goes_down_and_a_topic_that_is_missing_is_named(
    broker: BrokerAddress, topic: Callable[..., str], tmp_path: Path
) -> None:
    kafka = {"bootstrap_servers": broker.address}
    inbox = Inbox(open_engine(f"sqlite:///{tmp_path}/w.sqlite"))
    name, stopped = topic("orders", 1), asyncio.Event()
    missing = Feed(inbox, {"missing": relayed("missing")}, kafka)
    feed = Feed(inbox, {name: relayed(name)}, kafka)
    pages, others = InboxPages(inbox, feed), InboxPages(inbox, missing)
    runs = [asyncio.create_task(each.run(stopped)) for each in (feed, missing)]
    try:
        await until(lambda: missing.failing is not None)
        assert "topic 'missing' does not exist; make it" in (await others.troubles())[-1]
        await feed.ready.wait()
        async with AIOKafkaProducer(**kafka) as producer:
            await producer.send_and_wait(name, b"body", b"a", headers=[("sequitur-sequence", b"1")])

        def done() -> bool:
            return pages._received["stored"] == 1

        await until(done)
        pages._broker._asked = float("-inf")  # type: ignore[union-attr]
        assert await pages.troubles() == []
        found = await figures(pages)
        assert found[f"sequitur_inbox_lag_records {name} 0"] == 0
        assert found[f"sequitur_inbox_lag_seconds {name} 0"] == 0
        assert found["sequitur_broker_up"] == 1
    finally:
        stopped.set()
        await asyncio.gather(*runs)
        inbox.engine.dispose()
