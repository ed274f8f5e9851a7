"""What a relay answers about itself."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from sequitur.inbox.server import application
from sequitur.kafka.probe import BrokerProbe
from sequitur.local.ports import free_port
from sequitur.relay.http_link import HttpLink
from sequitur.relay.leadership import RelayConfig
from sequitur.relay.link import Answer, MissingRange, SendResult, Unavailable
from sequitur.relay.pages import RelayPages
from sequitur.relay.relay import Relay
from stores.db.engines import open_engine
from stores.inbox.inbox import Inbox
from stores.locks.lease import Lease
from stores.message import Message
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from tests.apps.sequitur.relay.parts import TOKEN, running, serving, until


def made(engine: Engine, url: str) -> tuple[Relay, RelayPages]:
    log = MessageLog()
    relay = Relay(
        engine,
        log,
        HttpLink("r", url, TOKEN),
        Lease(engine, "relay r", "test", 5),
        config=RelayConfig(poll=0.05, ask=0.1, retry=0.05),
    )
    return relay, RelayPages(relay, engine, log, None)


async def figures(pages: RelayPages) -> dict[str, float]:
    await asyncio.gather(pages.troubles(), pages.measure())
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in pages.registry.collect()
        for sample in family.samples
    }


async def test_a_receiver_that_is_away_is_named_until_it_is_there(
    engine: Engine, tmp_path: Path
) -> None:
    with engine.begin() as connection:
        Outbox(MessageLog()).capture(connection, "orders", "a", "Placed", b"1")
    inbox = Inbox(open_engine(f"sqlite:///{tmp_path}/inbox.sqlite"))
    port = free_port()
    relay, pages = made(engine, f"http://127.0.0.1:{port}")
    async with running(relay):
        await until(lambda: relay.unavailable is not None)
        (trouble,) = await pages.troubles()
        assert str(port) in trouble
        found = await figures(pages)
        assert found["sequitur_relay_leads"] == 1
        assert found["sequitur_relay_waiting_messages orders"] == 1
        assert found["sequitur_relay_oldest_seconds orders"] >= 0
        assert found["sequitur_database_up"] == 1
        async with serving(application(inbox, TOKEN), port):
            await until(lambda: relay.moved.deleted == 1)
            assert await pages.troubles() == []
            pages._waiting._asked = float("-inf")
            found = await figures(pages)
            assert "sequitur_relay_waiting_messages orders" not in found
            assert found["sequitur_relay_messages_total sent"] == 1
            assert found["sequitur_relay_send_seconds_count"] >= 1
    inbox.engine.dispose()


class Silent:
    """A link that is opened at once, and to a receiver that acknowledges nothing until it is well.

    It keeps what the relay said of it whenever it was asked something.
    """

    def __init__(self) -> None:
        self.well = False
        self.calls = 0
        self.tell: Callable[[], str | None] = lambda: None
        self.told: list[str | None] = []

    async def open(self, log: str = "") -> None:
        self.told.append(self.tell())

    async def send(self, messages: Sequence[Message], answers: Sequence[Answer] = ()) -> SendResult:
        self.calls += 1
        self.told.append(self.tell())
        if not self.well:
            raise Unavailable("the receiver did not acknowledge: TimeoutError()")
        return SendResult()

    async def void(self, missing: MissingRange, first: int, last: int) -> list[Answer]:
        return []

    async def close(self) -> None: ...


@pytest.mark.parametrize("messages", [0, 1])
async def test_a_receiver_that_acknowledges_nothing_is_a_trouble_until_it_does(
    engine: Engine, messages: int
) -> None:
    """To be open proves nothing: over HTTP there is no contact before the first batch. A relay
    without messages asks what is missing, and that is a batch too."""
    with engine.begin() as connection:
        for _ in range(messages):
            Outbox(MessageLog()).capture(connection, "orders", "a", "Placed", b"1")
    link = Silent()
    lease = Lease(engine, "relay r", "test", 5)
    relay = Relay(
        engine, MessageLog(), link, lease, config=RelayConfig(poll=0.05, ask=0.05, retry=0.01)
    )
    link.tell = lambda: relay.unavailable
    async with running(relay):
        await until(lambda: link.calls > 5)
        assert set(link.told[2:]) == {"the receiver did not acknowledge: TimeoutError()"}
        link.well = True
        await until(lambda: relay.unavailable is None)
        assert relay.moved.sent == messages
        calls = link.calls
        await until(lambda: link.calls > calls + 2)
        assert relay.unavailable is None


async def test_a_relay_that_stands_by_is_ready(engine: Engine) -> None:
    link = Silent()
    lease = Lease(engine, "relay r", "test", 1)
    relay = Relay(
        engine, MessageLog(), link, lease, config=RelayConfig(poll=0.05, ask=0.05, retry=0.01)
    )
    async with running(relay):
        await until(lambda: relay.unavailable is not None)
        with engine.begin() as connection:  # another one takes over
            until_when = "UPDATE sequitur_leases SET epoch = epoch + 1, until = until + 600000"
            connection.execute(text(until_when))
        await until(lambda: not relay.leading.is_set())
        await until(lambda: relay.unavailable is None)


async def test_a_database_or_a_broker_that_is_away_is_named(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/gone/orders.sqlite")
    (tmp_path / "gone").rmdir()
    relay, _ = made(engine, "http://127.0.0.1:1")
    away = BrokerProbe({"bootstrap_servers": f"127.0.0.1:{free_port()}"})
    pages = RelayPages(relay, engine, MessageLog(), away)
    assert await pages.troubles() == [
        "the log's database does not answer",
        "the broker does not answer",
    ]
    found = await figures(pages)
    assert (found["sequitur_database_up"], found["sequitur_broker_up"]) == (0, 0)
    await pages.stop()
    engine.dispose()
