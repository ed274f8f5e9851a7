"""A lost site is fenced, the others are made equal, and nothing comes twice when it returns."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.errors import ProducerFenced

from stores.db.engines import open_engine
from stores.replay import CapturedMessage, ReplayLog
from stores.sites import GivenUp, NotCopied, Site, SiteError, SitePublisher
from stores.sites.copy_writer import Copy, CopyWriter
from stores.sites.errors import SiteFenced
from stores.sites.fences import Fence, check_fence, decide, fences_of
from stores.sites.forwarder import Forwarder
from stores.sites.lag import lag
from stores.sites.losses import accept_loss, deleted
from stores.sites.origin import Origin, headers_of_copy, origin_of
from stores.sites.site import SITES, Position
from stores.sites.takeover import cluster_of, survey, take_over
from tests.stores.sites.test_forwarding import all_of, publish, read, running

pytestmark = pytest.mark.integration


def copy(cluster: str, topic: str, offset: int) -> Copy:
    origin = Origin(cluster, topic, 0, offset)
    return Copy(origin, b"k", b"%d" % offset, headers_of_copy([], origin, cluster), None)


@asynccontextmanager
async def written(site: Site, cluster: str, topic: str, count: int) -> AsyncIterator[CopyWriter]:
    """The forwarder of a site that is lost later, when it had forwarded so much."""
    writer = CopyWriter(site, cluster, topic)
    try:
        await writer.start()
        for n in range(count):
            await writer.write([copy(cluster, topic, n * 3)], {0: Position(n * 3 + 1, "id")})
        yield writer
    finally:
        await writer.stop()


async def test_what_one_site_has_of_a_lost_one_is_copied_to_the_others_once(
    sites: tuple[Site, Site], everywhere: Callable[..., str], unique: Callable[[str], str]
) -> None:
    newark, kennedy = sites
    topic, lost = everywhere(), unique("lost")
    async with written(newark, lost, topic, 40), written(kennedy, lost, topic, 11) as zombie:
        (behind,) = await survey("laguardia", lost, sites)
        assert (behind.site, behind.low, behind.high, behind.messages) == ("kennedy", 31, 118, 29)
        fence = Fence(1, True, "me", "power is out", 0.0)
        assert await take_over("laguardia", lost, sites, [topic], fence) == 29
        with pytest.raises(ProducerFenced):
            await zombie.write([copy(lost, topic, 33)], {0: Position(34, "id")})
    assert await survey("laguardia", lost, sites) == []
    assert await take_over("laguardia", lost, sites, [topic], fence) == 0
    for site in sites:
        assert await read(site, topic) == [(lost, str(n * 3)) for n in range(40)]
        rows = await site.rows(SITES)
        assert fences_of(rows, lost) == [fence]
        with pytest.raises(SiteFenced, match="power is out"):
            check_fence(rows, lost, site.name)
    at = TopicPartition(topic, 0)
    last = [each async for each in kennedy.records(at, 0, (await kennedy.extents(topic))[0].end)]
    assert dict(last[-1].headers)["sequitur-sites"].decode() == f"{lost},{await newark.identify()}"
    with pytest.raises(SiteError, match="give --epoch 2"):
        await decide(newark, lost, Fence(1, False, "me", "", 0.0))
    await decide(newark, lost, Fence(2, False, "me", "power is back", 0.0))
    check_fence(await newark.rows(SITES), lost, "newark")


async def test_a_takeover_copies_what_lies_behind_an_open_transaction(
    sites: tuple[Site, Site], everywhere: Callable[..., str], unique: Callable[[str], str]
) -> None:
    topic, lost = everywhere(), unique("lost")
    newark, _ = sites
    fence = Fence(1, True, "me", "", 0.0)
    async with (
        written(sites[1], lost, topic, 1),
        AIOKafkaProducer(**newark.kafka, transactional_id=unique("open")) as producer,
    ):
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"open", partition=0)
        async with written(newark, lost, topic, 3):
            taking = asyncio.create_task(take_over("laguardia", lost, sites, [topic], fence))
            await asyncio.wait([taking], timeout=5)
            await producer.abort_transaction()
            assert await taking == 2
    assert [await read(site, topic) for site in sites] == [[(lost, n) for n in "036"]] * 2


async def test_a_takeover_that_is_killed_is_run_again(
    sites: tuple[Site, Site],
    everywhere: Callable[..., str],
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newark, kennedy = sites
    topic, lost = everywhere(), unique("lost")
    monkeypatch.setattr("stores.sites.takeover._BATCH", 3)
    monkeypatch.setattr("stores.sites.copies._LOOK_BACK", 5)
    fence = Fence(1, True, "me", "", 0.0)
    async with written(newark, lost, topic, 20), written(kennedy, lost, topic, 2):
        write, left = CopyWriter.write, 3

        async def dies(self: CopyWriter, *given: object) -> None:
            nonlocal left
            if not (left := left - 1):
                raise asyncio.CancelledError
            await write(self, *given)  # type: ignore[arg-type]

        with monkeypatch.context() as patch:
            patch.setattr(CopyWriter, "write", dies)
            with pytest.raises(asyncio.CancelledError):
                await take_over("laguardia", lost, sites, [topic], fence)
        assert len(await read(kennedy, topic)) == 2 + 2 * 3
        assert await take_over("laguardia", lost, sites, [topic], fence) == 12
    assert await read(kennedy, topic) == [(lost, str(n * 3)) for n in range(20)]


async def test_a_site_that_is_fenced_forwards_again_when_it_is_returned(
    sites: tuple[Site, Site], everywhere: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.sites.forwarder._PAUSE", 0.2)
    newark, kennedy = sites
    topic = everywhere()
    await publish(newark, topic, "1 2")
    async with running(newark, kennedy, topic) as forwarder:
        assert await all_of(forwarder, 2) == 2
    id = await cluster_of(Site("newark", {}), [kennedy])
    assert id == await newark.identify()
    epoch = max([0, *(each.epoch for each in fences_of(await kennedy.rows(SITES), id))])
    await take_over("newark", id, [kennedy], [topic], Fence(epoch + 1, True, "me", "", 0.0))
    await publish(newark, topic, "3 4")
    running_again = Forwarder(newark, kennedy, topic)
    stopped = asyncio.Event()
    task = asyncio.create_task(running_again.run(stopped))
    try:
        assert [each.messages for each in await lag(newark, [kennedy], [topic])] == [2, 2]
        taker = CopyWriter(kennedy, id, topic)
        await taker.start()
        await asyncio.sleep(1)  # in which it looks several times, and shuts out nobody
        await taker.write((), {})
        await taker.stop()
        await decide(kennedy, id, Fence(epoch + 2, False, "me", "", 0.0))
        async with asyncio.timeout(90):
            while any(each.messages for each in await lag(newark, [kennedy], [topic])):
                await asyncio.sleep(0.2)
    finally:
        stopped.set()
        await task
    assert await read(kennedy, topic) == [(id, word) for word in "1234"]


async def test_a_takeover_shuts_out_forwarders_of_topics_that_its_file_does_not_name(
    sites: tuple[Site, Site], everywhere: Callable[..., str]
) -> None:
    """Of which nothing has been copied yet, so that no position tells of them."""
    newark, kennedy = sites
    topic, id = everywhere(), await newark.identify()
    last = max([0, *(each.epoch for each in fences_of(await kennedy.rows(SITES), id))])
    async with running(newark, kennedy, topic) as forwarder:
        fence = Fence(last + 1, True, "me", "", 0.0)
        try:
            assert await take_over("newark", id, [kennedy], [], fence) == 0
            await publish(newark, topic, "1")
            with pytest.raises(ProducerFenced):
                await all_of(forwarder, 1)
        finally:
            await decide(kennedy, id, Fence(last + 2, False, "me", "", 0.0))
    assert await read(kennedy, topic) == []


async def test_a_forwarder_that_begins_a_topic_while_its_site_is_taken_over_finds_the_fence(
    sites: tuple[Site, Site], everywhere: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The takeover has not seen the topic, as the forwarder writes it down only then."""
    newark, kennedy = sites
    topic, id = everywhere(), await newark.identify()
    last = max([0, *(each.epoch for each in fences_of(await kennedy.rows(SITES), id))])
    write = CopyWriter.write

    async def late(self: CopyWriter, *given: object) -> None:
        fence = Fence(last + 1, True, "me", "", 0.0)
        await take_over("newark", id, [kennedy], [], fence)
        await write(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(CopyWriter, "write", late)
    forwarder = Forwarder(newark, kennedy, topic)
    try:
        with pytest.raises(SiteFenced):
            await forwarder.start()
    finally:
        await forwarder.stop()
        await decide(kennedy, id, Fence(last + 2, False, "me", "", 0.0))


async def test_what_retention_deleted_before_it_was_copied_is_named_and_given_up_on_record(
    sites: tuple[Site, Site], everywhere: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    newark, kennedy = sites
    topic = everywhere(2)
    await publish(newark, topic, "1 2 3 4")
    async with newark.admin() as admin:
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before_offset=3)})
    async with running(newark, kennedy, topic) as forwarder:
        assert "offsets 0 to 2 were deleted" in forwarder.stuck[0]
        assert 1 not in forwarder.stuck, "the other partitions go on"
    (first, *_) = await lag(newark, [kennedy], [topic])
    assert (first.low, first.deleted, first.messages, first.missing) == (0, 3, 1, True)
    assert await deleted(newark, kennedy, topic) == [(0, 0, 2)]
    monkeypatch.setattr("stores.sites.forwarder._REPEAT", 1)
    stopped = asyncio.Event()
    task = asyncio.create_task(Forwarder(newark, kennedy, topic).run(stopped))
    assert await accept_loss(newark, kennedy, topic, "me", "never mind") == [(0, 0, 2)]
    async with asyncio.timeout(90):
        while (await lag(newark, [kennedy], [topic]))[0].missing:
            await asyncio.sleep(0.2)
    stopped.set()
    await task
    id = await newark.identify()
    assert await read(kennedy, topic) == [(id, "4")]
    assert (await kennedy.rows(SITES))["loss", id, topic, 0, 0, 2]["reason"] == "never mind"
    publisher = SitePublisher(newark, [kennedy], copies=1)
    await publisher.start()
    try:
        await publisher.copied(Origin(id, topic, 0, 3))
        with pytest.raises(GivenUp, match="send it again if they need it"):
            await publisher.copied(Origin(id, topic, 0, 2))
    finally:
        await publisher.stop()


async def test_with_one_copy_a_message_is_acknowledged_once_a_second_site_has_it(
    sites: tuple[Site, Site], everywhere: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    newark, kennedy = sites
    topic = everywhere()
    publisher = SitePublisher(newark, [kennedy], copies=1, timeout=120)
    copied = publisher._copied

    async def soon(sent: Origin, before: Position | None) -> None:
        publisher.timeout = 2  # from when the own broker has it
        try:
            await copied(sent, before)
        finally:
            publisher.timeout = 120

    await publisher.start()
    try:
        with monkeypatch.context() as impatient:
            impatient.setattr(publisher, "_copied", soon)
            with pytest.raises(NotCopied, match="do not send it again") as found:
                await publisher.send(topic, b"1", b"k")
        sent = found.value.sent
        assert isinstance(sent, Origin)
        async with running(newark, kennedy, topic) as forwarder:
            sending = asyncio.create_task(publisher.send(topic, b"2", b"k"))
            await all_of(forwarder, 2)
            await publisher.copied(sent)
            assert (await sending).offset == sent.offset + 1
        async with newark.admin() as admin:
            await admin.delete_topics([topic])
            while topic in await admin.list_topics():
                await asyncio.sleep(0.1)
            await admin.create_topics([NewTopic(topic, 1, 1)])
        monkeypatch.setattr(publisher, "_copied", soon)
        with pytest.raises(NotCopied) as found:
            await publisher.send(topic, b"3", b"k")
        while "deleted and made again" not in str(found.value):  # its id was not known in time
            with pytest.raises(NotCopied) as found:
                await publisher.copied(found.value.sent)  # type: ignore[arg-type]
    finally:
        await publisher.stop()
    assert [word for _, word in await read(kennedy, topic)] == ["1", "2"]
    assert origin_of([("sequitur-origin", str(sent).encode())], topic) == sent


async def test_what_retention_took_from_the_topic_is_taken_from_the_replay_log(
    sites: tuple[Site, Site],
    everywhere: Callable[..., str],
    unique: Callable[[str], str],
    tmp_path: Path,
) -> None:
    newark, kennedy = sites
    topic, lost = everywhere(), unique("lost")
    fence = Fence(1, True, "me", "", 0.0)
    log = ReplayLog(open_engine(url := f"sqlite:///{tmp_path}/log.db"))
    log.create()

    def logged(offsets: range, end: int) -> None:  # there is a marker behind the first one
        copies = [copy(lost, topic, n * 3) for n in offsets]
        messages = [
            CapturedMessage(
                *(topic, 0, min(n, 1) + n, each.value, 7, each.key),
                *(tuple((name, value or b"") for name, value in each.headers), lost),
                str(each.origin),
            )
            for n, each in zip(offsets, copies, strict=True)
        ]
        log.append(topic, messages, {0: end})

    async with written(newark, lost, topic, 1), written(kennedy, lost, topic, 4):
        pass
    writer = CopyWriter(newark, lost, topic)  # one transaction: local offsets are as in the log
    await writer.start()
    copies = [copy(lost, topic, n * 3) for n in range(1, 9)]
    await writer.write(copies, {0: Position(25, "id")})
    await writer.stop()
    at = TopicPartition(topic, 0)
    async with newark.admin() as admin:
        await admin.delete_records({at: RecordsToDelete(before_offset=8)})
    with pytest.raises(SiteError, match="names no replay log"):
        await take_over("laguardia", lost, sites, [topic], fence)
    with_log = Site("newark", newark.kafka, log=url)
    logged(range(5), 6)
    with pytest.raises(SiteError, match="its replay log lacks some"):
        await take_over("laguardia", lost, [with_log, kennedy], [topic], fence)
    logged(range(5, 7), 8)
    assert await take_over("laguardia", lost, [with_log, kennedy], [topic], fence) == 5
    assert await read(kennedy, topic) == [(lost, str(n * 3)) for n in range(9)]
    log.engine.dispose()
