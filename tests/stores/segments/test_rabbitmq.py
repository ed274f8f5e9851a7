"""RabbitMQ's queues and exchanges: the contract, and what a queue is like."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import aio_pika
import pytest

from checkout.rabbitmq import RabbitMQ
from stores.segments import (
    DestinationDown,
    Inbound,
    InboundMessage,
    Outbound,
    OutboundBatch,
    OutboundMessage,
    Place,
    PublishRefused,
)
from stores.segments.transports import rabbitmq_streams
from stores.segments.transports.rabbitmq import RabbitInbound, RabbitLogin, RabbitOutbound
from stores.segments.transports.rabbitmq_streams import RabbitStreamInbound, RabbitStreamOutbound
from tests.contracts.transports import PAIR, Add, Got, InboundContract, OutboundContract, polled

pytestmark = pytest.mark.integration
Declare = Callable[..., Awaitable[str]]
NOWHERE = RabbitLogin("amqp://guest:secret@127.0.0.1:9/")


@pytest.fixture
def login(rabbitmq_server: RabbitMQ) -> RabbitLogin:
    return RabbitLogin(rabbitmq_server.url)


@pytest.fixture
def queue(login: RabbitLogin, unique: Callable[[str], str]) -> Declare:
    """(word, …) → the name of a new durable queue, with these arguments."""

    async def declare(word: str, bind: str = "", **arguments: object) -> str:
        name = unique(word)
        async with await login.connect("test") as connection:
            channel = await connection.channel()
            made = await channel.declare_queue(name, durable=True, arguments=arguments or None)  # type: ignore[arg-type]
            if bind:
                exchange = await channel.declare_exchange(bind, "topic", durable=True)
                await made.bind(exchange, name)
        return name

    return declare


async def put(
    login: RabbitLogin, queue: str, *messages: aio_pika.Message, exchange: str = ""
) -> None:
    async with await login.connect("test") as connection:
        channel = await connection.channel()
        for message in messages:
            await channel.default_exchange.publish(message, queue)


async def taken(login: RabbitLogin, queue: str, count: int) -> list[InboundMessage]:
    """What a queue has: at least `count`, and what else is there."""
    inbound = RabbitInbound("test", login, queue)
    await inbound.start({})
    found = await polled(inbound, count)
    while more := await inbound.poll(1_000, 0.1):
        found += more
    await inbound.acknowledge({0: found[-1].behind})
    await inbound.stop()
    return found


class TestRabbitInbound(InboundContract):
    replays = False

    @pytest.fixture
    async def source(self, queue: Declare) -> str:
        return await queue("source")

    @pytest.fixture
    def inbound(self, login: RabbitLogin, source: str) -> Callable[[], Inbound]:
        return lambda: RabbitInbound(source, login)

    @pytest.fixture
    def unreachable(self) -> Inbound:
        return RabbitInbound("orders", NOWHERE)

    @pytest.fixture
    def add(self, login: RabbitLogin, source: str) -> Add:
        numbers = iter(range(1000))

        async def add(values: Sequence[bytes]) -> None:
            who = {"sequitur-stream": "s"}
            await put(
                login,
                source,
                *(
                    aio_pika.Message(
                        value, headers={**who, "sequitur-sequence": str(next(numbers))}
                    )
                    for value in values
                ),
            )

        return add


class OfQueues(OutboundContract):
    once = False

    @pytest.fixture
    def unreachable(self) -> Outbound:
        return RabbitOutbound(NOWHERE)

    @pytest.fixture
    def refused(self, unique: Callable[[str], str]) -> OutboundMessage:
        return OutboundMessage("there", unique("nobody"), b"x", id="s/orders/0/9/0")

    @pytest.fixture
    def got(self, login: RabbitLogin, target: str) -> Got:
        async def got(count: int) -> list[tuple[bytes, str | None]]:
            found = await taken(login, target, count)
            return [(each.value or b"", each.producer_id) for each in found]

        return got


class TestQueue(OfQueues):
    @pytest.fixture
    async def target(self, queue: Declare) -> str:
        return await queue("target")

    @pytest.fixture
    async def errors(self, queue: Declare) -> str:
        return await queue("errors")

    @pytest.fixture
    def outbound(self, login: RabbitLogin, target: str) -> Callable[[], Outbound]:
        return lambda: RabbitOutbound(login, target)


class TestExchange(OfQueues):
    @pytest.fixture
    async def exchange(self, unique: Callable[[str], str]) -> str:
        return unique("exchange")

    @pytest.fixture
    async def target(self, queue: Declare, exchange: str) -> str:
        return await queue("target", exchange)

    @pytest.fixture
    async def errors(self, queue: Declare, exchange: str) -> str:
        return await queue("errors", exchange)

    @pytest.fixture
    def outbound(self, login: RabbitLogin, exchange: str, target: str) -> Callable[[], Outbound]:
        return lambda: RabbitOutbound(login, target, exchange=exchange)


def sent(target: str, *values: bytes, **more: object) -> OutboundBatch:
    messages = (
        OutboundMessage("there", target, value, id=f"s/{value.decode()[:9]}/0", **more)  # type: ignore[arg-type]
        for value in values
    )
    return OutboundBatch(PAIR, tuple(messages), Place(1, 10))


async def test_what_a_message_says_of_itself_goes_through_a_queue(
    login: RabbitLogin, queue: Declare
) -> None:
    target = await queue("target")
    outbound = RabbitOutbound(login, target)
    await outbound.start(PAIR)
    odd = (("h", b"1"), ("sequitur-id", b"of what it came of"), ("h", "ü".encode()), ("b", b"\xff"))
    await outbound.publish(sent(target, b"1", key=b"k", headers=odd, stream="a/b", sequence=7))
    await outbound.stop()
    (found,) = await taken(login, target, 1)
    assert (found.key, found.stream, found.sequence) == (b"k", "a/b", 7)
    assert (found.producer_id, found.redelivered) == ("s/1/0", False)
    own = tuple(each for each in found.headers if len(each[0]) == 1)
    assert own == (("b", b"\xff"), ("h", b"1"), ("h", "ü".encode()))


async def test_headers_that_rabbitmq_takes_for_routing_keys_route_nothing(
    login: RabbitLogin, queue: Declare
) -> None:
    target, other = await queue("target"), await queue("other")
    named = (("CC", other.encode()), ("CC", target.encode()), ("BCC", other.encode()))
    outbound = RabbitOutbound(login, target)
    await outbound.start(PAIR)
    await outbound.publish(sent(target, b"1", headers=named))
    with pytest.raises(PublishRefused, match="no queue"):
        await outbound.publish(sent("nowhere", b"2", headers=named))
    await outbound.publish(sent(other, b"3"))
    await outbound.stop()
    (found,) = await taken(login, target, 1)
    assert {*named} <= {*found.headers}
    assert [each.value for each in await taken(login, other, 1)] == [b"3"]


async def test_a_message_that_is_too_large_or_whose_headers_are_is_refused_and_no_other_one(
    login: RabbitLogin, queue: Declare
) -> None:
    target = await queue("target")
    outbound = RabbitOutbound(login, target)
    await outbound.start(PAIR)
    good = sent(target, b"good").messages
    for bad in (
        sent(target, b"a", headers=(("h", b"x" * 200_000),)),
        sent(target, b"b", headers=(("h" * 300, b"x"),)),
        sent("q" * 300, b"c"),
    ):
        with pytest.raises(PublishRefused) as refused:
            await outbound.publish(OutboundBatch(PAIR, good + bad.messages, Place(1, 20)))
        assert refused.value.index == 1
    await outbound.publish(OutboundBatch(PAIR, good, Place(1, 20)))
    assert [each.value for each in await taken(login, target, 1)] == [b"good"]
    large = sent(target, b"x" * 140_000_000).messages  # RabbitMQ's limit is 128 MiB
    with pytest.raises(DestinationDown):  # which one it is, is known the second time
        await outbound.publish(OutboundBatch(PAIR, good + large, Place(1, 30)))
    await outbound.stop()
    await outbound.start(PAIR)
    with pytest.raises(PublishRefused, match="larger than") as found:
        await outbound.publish(OutboundBatch(PAIR, good + large, Place(1, 30)))
    assert found.value.index == 1
    await outbound.publish(sent(target, b"next"))
    assert [each.value for each in await taken(login, target, 2)] == [b"good", b"next"]
    await outbound.stop()


async def test_a_queue_that_is_full_is_a_destination_that_is_down(
    login: RabbitLogin, queue: Declare
) -> None:
    full = {"x-max-length": 2, "x-overflow": "reject-publish"}
    target = await queue("target", **full)
    outbound = RabbitOutbound(login, target)
    await outbound.start(PAIR)
    await outbound.publish(sent(target, b"0", b"1"))
    with pytest.raises(DestinationDown):
        await outbound.publish(sent(target, b"2"))
    await taken(login, target, 2)
    await outbound.publish(sent(target, b"2"))
    await outbound.stop()


async def test_a_producer_s_id_is_read_and_what_comes_again_is_said_to(
    login: RabbitLogin, queue: Declare
) -> None:
    source = await queue("source")
    await put(login, source, aio_pika.Message(b"p", message_id="p"))
    first = RabbitInbound(source, login)
    await first.start({})
    (found,) = await polled(first, 1)
    assert (found.producer_id, found.redelivered) == ("p", False)
    await first.stop()
    (found,) = await taken(login, source, 1)
    assert (found.producer_id, found.redelivered) == ("p", True)


async def test_a_queue_has_one_consumer_and_one_that_is_gone_is_told_of(
    login: RabbitLogin, queue: Declare
) -> None:
    source = await queue("source")
    one, two = RabbitInbound(source, login), RabbitInbound(source, login)
    await one.start({})
    with pytest.raises(ConnectionError, match="exclusive"):
        await two.start({})
    await two.stop()
    async with await login.connect("test") as connection:
        await (await connection.channel()).queue_delete(source)
    with pytest.raises(ConnectionError, match="ended"):
        await one.poll(1, 120)
    await one.stop()
    with pytest.raises(ConnectionError, match="no queue"):
        await one.start({})
    await one.stop()


async def test_a_message_whose_sending_is_cancelled_by_the_connection_is_in_doubt() -> None:
    class Cancelling(RabbitOutbound):
        async def _send(self, *given: object) -> None:
            raise asyncio.CancelledError

    with pytest.raises(DestinationDown):
        await Cancelling(NOWHERE).publish(sent("q", b"1"))


def test_no_secret_of_a_login_is_in_its_text_or_in_an_error() -> None:
    assert "secret" not in repr(NOWHERE)
    with pytest.raises(ConnectionError) as error:
        asyncio.run(RabbitInbound("orders", NOWHERE).start({}))
    assert "secret" not in f"{error.value} {error.value.__cause__}"


STREAM_QUEUE = {"x-queue-type": "stream"}


class TestStreamInbound(InboundContract):
    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rabbitmq_streams, "_LOOK", 2.0)

    @pytest.fixture
    async def source(self, queue: Declare) -> str:
        return await queue("source", **STREAM_QUEUE)

    @pytest.fixture
    def inbound(self, login: RabbitLogin, source: str) -> Callable[[], Inbound]:
        return lambda: RabbitStreamInbound(source, login)

    @pytest.fixture
    def unreachable(self) -> Inbound:
        return RabbitStreamInbound("orders", NOWHERE)

    @pytest.fixture
    def add(self, login: RabbitLogin, source: str) -> Add:
        async def add(values: Sequence[bytes]) -> None:
            await put(login, source, *map(aio_pika.Message, values))

        return add


class TestStreamOutbound(OutboundContract):
    @pytest.fixture
    async def target(self, queue: Declare) -> str:
        return await queue("target", **STREAM_QUEUE)

    @pytest.fixture
    async def errors(self, queue: Declare) -> str:
        return await queue("errors", **STREAM_QUEUE)

    @pytest.fixture
    def outbound(self, rabbitmq_server: RabbitMQ, login: RabbitLogin) -> Callable[[], Outbound]:
        return lambda: RabbitStreamOutbound(login, rabbitmq_server.stream_port)

    @pytest.fixture
    def unreachable(self) -> Outbound:
        return RabbitStreamOutbound(NOWHERE, 9)

    @pytest.fixture(params=[b"x", b"x" * 1_100_000])
    def refused(self, request: pytest.FixtureRequest, target: str) -> OutboundMessage:
        where = target if len(request.param) > 1 else f"{target}-absent"
        return OutboundMessage("there", where, request.param, id="s/orders/0/9/0")

    @pytest.fixture
    def got(self, login: RabbitLogin, target: str) -> Got:
        async def got(count: int) -> list[tuple[bytes, str | None]]:
            inbound = RabbitStreamInbound(target, login)
            await inbound.start({})
            found = await polled(inbound, count)
            while more := await inbound.poll(1_000, 0.1):
                found += more
            await inbound.stop()
            return [(each.value or b"", each.producer_id) for each in found]

        return got


async def test_what_a_message_says_of_itself_goes_through_a_stream(
    rabbitmq_server: RabbitMQ, login: RabbitLogin, queue: Declare
) -> None:
    target = await queue("target", **STREAM_QUEUE)
    outbound = RabbitStreamOutbound(login, rabbitmq_server.stream_port)
    await outbound.start(PAIR)
    headers = (("h", "ü".encode()), ("b", b"\xff"))
    await outbound.publish(sent(target, b"1", key=b"k", headers=headers, stream="a/b", sequence=7))
    await outbound.publish(sent(target, *(b"x" * 300_000 for _ in range(9))))  # of several frames
    await outbound.stop()
    inbound = RabbitStreamInbound(target, login)
    await inbound.start({})
    found = await polled(inbound, 10)
    await inbound.stop()
    assert (found[0].key, found[0].stream, found[0].sequence) == (b"k", "a/b", 7)
    assert {*found[0].headers} >= {*headers}
    assert [each.offset for each in found] == [*range(10)]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_connection_that_ends_is_a_destination_that_is_down(
    stream: bool, rabbitmq_server: RabbitMQ, login: RabbitLogin, queue: Declare
) -> None:
    target = await queue("target", **(STREAM_QUEUE if stream else {}))
    outbound: Any = RabbitOutbound(login, target)
    if stream:
        outbound = RabbitStreamOutbound(login, rabbitmq_server.stream_port)
    await outbound.start(PAIR)
    await outbound.publish(sent(target, b"0"))
    if stream:
        outbound._producers[target].client._conn._writer.transport.abort()
    else:
        await outbound._connection.close()
    with pytest.raises(DestinationDown):
        await outbound.publish(sent(target, b"1"))
    await outbound.stop()
    await outbound.start(PAIR)
    await outbound.publish(sent(target, b"2"))
    await outbound.stop()


async def test_a_stream_remembers_each_segment_and_one_process_without_segments_publishes(
    rabbitmq_server: RabbitMQ, login: RabbitLogin, queue: Declare
) -> None:
    target = await queue("target", **STREAM_QUEUE)
    outbound = RabbitStreamOutbound(login, rabbitmq_server.stream_port)
    await outbound.start(PAIR)
    batches = [
        replace(sent(target, b"a", b"b"), segment="one", offsets=(100, 200)),
        replace(sent(target, b"c"), segment="two", offsets=(50,)),
        replace(sent(target, b"b", b"d"), segment="one", offsets=(200, 300)),
        sent(target, b"e"),
        sent(target, b"e"),
    ]
    for batch in batches:
        await outbound.publish(batch)
    with pytest.raises(PublishRefused, match="no stream"):
        await outbound.publish(sent("größe", b"x"))
    await outbound.stop()
    inbound = RabbitStreamInbound(target, login)
    await inbound.start({})
    found = [each.value for each in await polled(inbound, 6)]
    await inbound.stop()
    assert found == [b"a", b"b", b"c", b"d", b"e", b"e"]
