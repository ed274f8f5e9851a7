"""Between real brokers: everything once at each site, and a lost site is made good."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import MessageSizeTooLargeError, ProducerFenced
from confluent_kafka import Producer

from stores.sites import Site, SiteError
from stores.sites.copy_writer import CopyWriter
from stores.sites.forwarder import Forwarder
from stores.sites.lag import lag
from stores.sites.origin import DAY, REPLAY, origin_of
from topology.model.origin_headers import ORIGIN

pytestmark = pytest.mark.integration


@asynccontextmanager
async def running(own: Site, peer: Site, topic: str) -> AsyncIterator[Forwarder]:
    forwarder = Forwarder(own, peer, topic, batch=20)
    await forwarder.start()
    try:
        yield forwarder
    finally:
        await forwarder.stop()


async def publish(site: Site, topic: str, words: str, **more: object) -> None:
    async with AIOKafkaProducer(**site.kafka) as producer:
        for word in words.split():
            await producer.send(topic, word.encode(), partition=0, **more)


async def read(site: Site, topic: str, partition: int = 0) -> list[tuple[str, str]]:
    """(cluster id of the origin, or nothing, content) of what is committed."""
    found = []
    at = TopicPartition(topic, partition)
    async for record in site.records(at, 0, (await site.extents(topic))[partition].end):
        origin = origin_of(record.headers, topic)
        found.append((origin.cluster if origin else "", (record.value or b"").decode()))
    return found


async def all_of(forwarder: Forwarder, count: int) -> int:
    """How many it forwards: at least `count`, and what else comes soon."""
    total = 0
    while total < count:
        total += await forwarder.step(0.2)
    return total + await forwarder.step(0.2)


async def test_each_message_is_at_both_sites_once_and_none_comes_back(
    sites: tuple[Site, Site], everywhere: Callable[..., str]
) -> None:
    newark, kennedy = sites
    topic = everywhere()
    await publish(newark, topic, "a b c", headers=[("h", b"\xff"), ("none", None)], timestamp_ms=7)
    await publish(kennedy, topic, "x y")
    await publish(newark, topic, "replayed", headers=[(REPLAY, b"1")])
    await publish(newark, topic, "over", headers=[(DAY, b"2026-11-22")])
    derived = [(ORIGIN, b"cluster/another-topic/0/1"), ("sequitur-sites", b"cluster")]
    await publish(newark, topic, "derived", headers=derived)
    nothing = Producer({"bootstrap.servers": newark.kafka["bootstrap_servers"]})
    nothing.produce(topic, None, None, partition=0)
    nothing.flush(120)
    async with running(newark, kennedy, topic) as there, running(kennedy, newark, topic) as back:
        assert await all_of(there, 5) == 5
        assert await all_of(back, 2) == 2
        assert await there.step(0.2) == 0
        assert await back.step(0.2) == 0
    ids = [await site.identify() for site in sites]
    own = [("", word) for word in ("a", "b", "c", "replayed", "over", "derived", "")]
    assert await read(newark, topic) == [*own, (ids[1], "x"), (ids[1], "y")]
    copies = [(ids[0], word) for word in ("a", "b", "c", "derived", "")]
    assert await read(kennedy, topic) == [("", "x"), ("", "y"), *copies]
    records = [each async for each in kennedy.records(TopicPartition(topic, 0), 2, 3)]
    assert records[0].timestamp == 7
    end = (await kennedy.extents(topic))[0].end
    *_, last = [each async for each in kennedy.records(TopicPartition(topic, 0), 2, end)]
    assert (last.key, last.value) == (None, None)
    assert records[0].headers == (
        *(("h", b"\xff"), ("none", None)),
        *((ORIGIN, f"{ids[0]}/{topic}/0/0".encode()), ("sequitur-sites", ids[0].encode())),
    )


async def test_it_goes_on_where_the_other_site_is_whatever_was_in_doubt(
    sites: tuple[Site, Site], everywhere: Callable[..., str]
) -> None:
    newark, kennedy = sites
    topic = everywhere()
    await publish(newark, topic, "1 2 3")
    async with running(newark, kennedy, topic) as first:
        assert await all_of(first, 3) == 3
        await publish(newark, topic, "4 5")
        # One that was killed in mid-transaction: it has written, and has not committed.
        assert first._writer is not None
        producer = first._writer._producer
        assert producer is not None
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"4", partition=0)
        async with running(newark, kennedy, topic) as second:
            assert await all_of(second, 2) == 2
            with pytest.raises(ProducerFenced):
                await producer.commit_transaction()
    id = await newark.identify()
    assert await read(kennedy, topic) == [(id, word) for word in "12345"]
    assert {(each.site, each.messages) for each in await lag(newark, [kennedy], [topic])} == {
        ("kennedy", 0),
        ("", 0),
    }


async def test_what_an_open_transaction_holds_back_is_counted(
    sites: tuple[Site, Site], everywhere: Callable[..., str], unique: Callable[[str], str]
) -> None:
    newark, kennedy = sites
    topic = everywhere()
    await publish(newark, topic, "1 2 3")
    async with AIOKafkaProducer(**newark.kafka, transactional_id=unique("open")) as producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"4", partition=0)
        await publish(newark, topic, "5")
        found = await lag(newark, [kennedy], [topic])
        assert [(each.messages, each.high, each.held_from) for each in found] == [(5, 5, 3)] * 2
        assert "at most 5 of" in str(found[0])
        assert "stands still at 3 while a transaction is open" in str(found[0])
        assert all(each.missing for each in await lag(newark, [kennedy], [topic], most=0))
        await producer.abort_transaction()
    found = await lag(newark, [kennedy], [topic])
    assert [(each.messages, each.held_from) for each in found] == [(4, None)] * 2


async def test_one_that_another_forwards_ahead_of_while_it_starts_takes_no_end_for_lost(
    sites: tuple[Site, Site], everywhere: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    newark, kennedy = sites
    topic, start = everywhere(), CopyWriter.start
    await publish(newark, topic, "1 2 3")
    async with running(newark, kennedy, topic) as first:
        assert await all_of(first, 3) == 3

        async def late(writer: CopyWriter) -> None:
            await publish(newark, topic, "4 5")
            assert await all_of(first, 2) == 2
            await start(writer)

        monkeypatch.setattr(CopyWriter, "start", late)
        async with running(newark, kennedy, topic) as second:
            assert second.stuck == {}


async def test_a_site_under_another_name_is_refused(
    sites: tuple[Site, Site], everywhere: Callable[..., str]
) -> None:
    newark, kennedy = sites
    topic = everywhere()
    alias = Site("elsewhere", newark.kafka)
    with pytest.raises(SiteError, match="are the same cluster"):
        await Forwarder(newark, alias, topic).start()
    pinned = Site("kennedy", kennedy.kafka, cluster=await newark.identify())
    with pytest.raises(SiteError, match="is written down"):
        await Forwarder(newark, pinned, topic).start()


async def test_several_partitions_are_kept_and_have_to_be_as_many(
    sites: tuple[Site, Site], everywhere: Callable[..., str]
) -> None:
    newark, kennedy = sites
    topic = everywhere(3)
    async with AIOKafkaProducer(**newark.kafka) as producer:
        for n in range(90):
            await producer.send(topic, b"%d" % n, partition=n % 3)
    async with running(newark, kennedy, topic) as forwarder:
        assert await all_of(forwarder, 90) == 90
    for partition in range(3):
        values = [int(value) for _, value in await read(kennedy, topic, partition)]
        assert values == list(range(partition, 90, 3))


async def test_a_site_that_takes_no_large_batch_gets_each_message_alone_and_one_too_large_is_named(
    sites: tuple[Site, Site], everywhere: Callable[..., str]
) -> None:
    newark, kennedy = sites
    topic = everywhere(**{"max.message.bytes": "1000"})
    words = [str(n) * 300 for n in range(8)]
    async with AIOKafkaProducer(**newark.kafka) as producer:
        for word in words:
            await producer.send_and_wait(topic, word.encode())
        await producer.send_and_wait(topic, b"9" * 850)
    forwarder = Forwarder(newark, kennedy, topic, batch=8)
    errors: list[Exception] = []
    while not any(isinstance(each, SiteError) for each in errors):
        try:
            await forwarder.start()
            for _ in range(3):
                await forwarder.step(0.5)
        except (MessageSizeTooLargeError, SiteError) as error:
            errors.append(error)
        finally:
            await forwarder.stop()
    assert isinstance(errors[0], MessageSizeTooLargeError)
    assert f"{topic}/0/8: raise max.message.bytes" in str(errors[-1])
    assert [word for _, word in await read(kennedy, topic)] == words
