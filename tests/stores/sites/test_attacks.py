"""What a hostile operator, disk or clock does to sites: nothing is lost or doubled in silence."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from aiokafka.errors import InvalidTimestampError, KafkaError, ProducerFenced
from confluent_kafka.cimpl import NewTopic

from stores.sites import NotCopied, Site, SiteError, SitePublisher
from stores.sites.checks import standing_still
from stores.sites.copy_writer import CopyWriter, mark_of
from stores.sites.fences import Fence, Rows, fences_of
from stores.sites.forwarder import Forwarder
from stores.sites.heard import Heard
from stores.sites.origin import Origin
from stores.sites.site import FORWARDED, SITES, Last, Position, progress_of
from stores.sites.takeover import take_over
from tests.conftest import make_topics
from tests.stores.sites.test_forwarding import publish, read
from tests.stores.sites.test_takeover import copy, written

pytestmark = pytest.mark.integration


def create(site: Site, topic: str, partitions: int, latest_ms: int = 86_400_000) -> None:
    config = {"message.timestamp.after.max.ms": str(latest_ms)}
    make_topics(site.kafka["bootstrap_servers"], NewTopic(topic, partitions, 1, config=config))


async def test_two_takeovers_at_once_copy_each_message_once(
    sites: tuple[Site, Site], everywhere: Callable[..., str], unique: Callable[[str], str]
) -> None:
    newark, kennedy = sites
    topic, lost = everywhere(), unique("lost")
    fence = Fence(1, True, "me", "", 0.0)
    async with written(newark, lost, topic, 9), written(kennedy, lost, topic, 2):
        both = (take_over("laguardia", lost, sites, [topic], fence) for _ in range(2))
        for each in await asyncio.gather(*both, return_exceptions=True):
            assert isinstance(each, int | SiteError | KafkaError), each
        await take_over("laguardia", lost, sites, [topic], fence)
    for site in sites:
        assert await read(site, topic) == [(lost, str(n * 3)) for n in range(9)]
        assert fences_of(await site.rows(SITES), lost) == [fence]


async def test_a_forwarder_that_starts_during_a_takeover_does_not_end_it(
    sites: tuple[Site, Site],
    everywhere: Callable[..., str],
    unique: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newark, kennedy = sites
    topic, lost = everywhere(), unique("lost")
    fence = Fence(1, True, "me", "", 0.0)
    write, shut_out = CopyWriter.write, list[ProducerFenced]()

    async def shuts_out(self: CopyWriter, *given: object) -> None:
        if self.target is kennedy and not shut_out:
            late = CopyWriter(kennedy, lost, topic)  # of a site that is alive, and only cut off
            await late.start()
            try:
                await write(self, *given)  # type: ignore[arg-type]
            except ProducerFenced as error:
                shut_out.append(error)
                raise
            finally:
                await late.stop()
        await write(self, *given)  # type: ignore[arg-type]

    async with written(newark, lost, topic, 9), written(kennedy, lost, topic, 2):
        monkeypatch.setattr(CopyWriter, "write", shuts_out)
        assert await take_over("laguardia", lost, sites, [topic], fence) == 7
    assert shut_out
    assert await read(kennedy, topic) == [(lost, str(n * 3)) for n in range(9)]


async def test_what_was_given_up_at_one_site_is_given_up_where_that_one_is_copied_to(
    sites: tuple[Site, Site], everywhere: Callable[..., str], unique: Callable[[str], str]
) -> None:
    newark, kennedy = sites
    topic, lost = everywhere(2), unique("lost")
    said = {"by": "me", "reason": "too old", "at": 0.0}
    async with written(newark, lost, topic, 2) as writer, written(kennedy, lost, topic, 1):
        loss = "loss", lost, topic
        rows: Rows = {(*loss, 0, 4, 8): said, (*loss, 1, 0, 6): said, (*loss, 0, 0, 0): said}
        await writer.write([copy(lost, topic, 9)], {0: Position(10, "id"), 1: Position(7)}, rows)
        fence = Fence(1, True, "me", "", 0.0)
        assert await take_over("laguardia", lost, sites, [topic], fence) == 2
    there = await kennedy.rows(SITES)
    assert {key[3:] for key in there if key[:3] == loss} == {(0, 4, 8), (1, 0, 6)}
    last = CopyWriter(kennedy, lost, topic)
    assert {n: at.next for n, at in (await last.positions()).items()} == {0: 10, 1: 7}
    assert await read(kennedy, topic) == [(lost, "0"), (lost, "3"), (lost, "9")]


async def test_a_topic_with_fewer_partitions_at_one_site_is_named(
    sites: tuple[Site, Site], unique: Callable[[str], str]
) -> None:
    newark, kennedy = sites
    topic, lost = unique("movements"), unique("lost")
    create(newark, topic, 2)
    create(kennedy, topic, 1)
    with pytest.raises(SiteError, match="2 partitions here and 1 at site kennedy"):
        await Forwarder(newark, kennedy, topic).start()
    good = topic + "-z"
    for site in sites:
        create(site, good, 1)
    async with written(newark, lost, topic, 1) as writer, written(newark, lost, good, 2):
        await writer.write([], {1: Position(3, "id")})
        fence = Fence(1, True, "me", "", 0.0)
        with pytest.raises(SiteError, match="1 partitions at site kennedy, and newark has"):
            await take_over("laguardia", lost, sites, [], fence)
    assert await read(kennedy, topic) == [(lost, "0")]
    assert await read(kennedy, good) == [(lost, "0"), (lost, "3")], "its trouble is not another's"


async def test_messages_of_two_topics_of_one_name_are_not_put_together(
    sites: tuple[Site, Site], everywhere: Callable[..., str], unique: Callable[[str], str]
) -> None:
    newark, kennedy = sites
    topic, lost = everywhere(), unique("lost")
    fence = Fence(1, True, "me", "", 0.0)
    async with written(newark, lost, topic, 4), written(kennedy, lost, topic, 0) as anew:
        await anew.write([copy(lost, topic, 0)], {0: Position(1, "another id")})
        with pytest.raises(SiteError, match="deleted and made again at laguardia"):
            await take_over("laguardia", lost, sites, [topic], fence)
    assert await read(kennedy, topic) == [(lost, "0")]


async def test_a_message_of_a_time_that_the_other_site_does_not_take_is_named(
    sites: tuple[Site, Site], unique: Callable[[str], str]
) -> None:
    newark, kennedy = sites
    topic, day = unique("movements"), 86_400_000
    create(newark, topic, 1, 9 * day)
    create(kennedy, topic, 1, day)
    await publish(newark, topic, "a b")
    await publish(newark, topic, "leapt", timestamp_ms=round(time.time() * 1000) + 3 * day)
    forwarder, errors = Forwarder(newark, kennedy, topic), list[Exception]()
    while not any(isinstance(each, SiteError) for each in errors):
        try:
            await forwarder.start()
            for _ in range(5):
                await forwarder.step(0.5)
        except (InvalidTimestampError, SiteError) as error:
            errors.append(error)
        finally:
            await forwarder.stop()
    assert isinstance(errors[0], InvalidTimestampError)
    assert f"the time of {await newark.identify()}/{topic}/0/2: raise message.tim" in str(
        errors[-1]
    )


@pytest.mark.parametrize("late", [False, True])
async def test_a_log_that_was_put_back_to_an_older_state_is_not_forwarded_and_acknowledges_nothing(
    sites: tuple[Site, Site],
    everywhere: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
    late: bool,
) -> None:
    """late: the other site is heard only when a message was sent."""
    monkeypatch.setattr("stores.sites.publisher._HEAR", 0.0 if late else 60.0)
    newark, kennedy = sites
    prepare, link = Site.prepare, asyncio.Event()

    async def when_there_is_a_link(self: Site) -> None:
        if self is kennedy:
            await link.wait()
        await prepare(self)

    topic, id = everywhere(), await newark.identify()
    # So many messages had been copied before the disk was lost: the older one has none of them.
    writer = CopyWriter(kennedy, id, topic)
    await writer.start()
    before = copy(id, topic, 2)
    position = Position(3, await newark.topic_id(topic))
    mark = mark_of(before.key, before.value, before.timestamp)
    await writer.write([before], {0: position}, last={0: Last(2, mark)})
    await writer.stop()
    publisher = SitePublisher(newark, [kennedy], copies=1, timeout=8 if late else 60)
    if late:
        monkeypatch.setattr(Site, "prepare", when_there_is_a_link)
    await publisher.start()
    asyncio.get_running_loop().call_later(1.0, link.set)
    try:
        with pytest.raises(NotCopied, match="put back to an older state") as found:
            await publisher.send(topic, b"anew", b"k")
        with pytest.raises(NotCopied, match="put back to an older state"):
            await publisher.copied(found.value.sent)  # type: ignore[arg-type]
    finally:
        await publisher.stop()
    assert "it lost its end" in (await standing_still(newark, kennedy, topic))[0]
    await publish(newark, topic, "b c d")
    assert "offset 2 has another message" in (await standing_still(newark, kennedy, topic))[0]
    forwarder = Forwarder(newark, kennedy, topic)
    with pytest.raises(SiteError, match="put back to an older state"):
        await forwarder.start()
    await forwarder.stop()
    assert await read(kennedy, topic) == [(id, "2")]


async def test_what_tells_a_log_is_the_last_that_was_read_of_it_also_a_copy(
    sites: tuple[Site, Site], everywhere: Callable[..., str], unique: Callable[[str], str]
) -> None:
    """The position goes on over copies, and behind the last message of its own a log could be put
    back without anybody's notice."""
    newark, kennedy = sites
    topic, id = everywhere(), await newark.identify()
    await publish(newark, topic, "a b")
    others = CopyWriter(newark, unique("laguardia"), topic)
    await others.start()
    await others.write([copy(others.cluster, topic, 7)], {0: Position(8)})
    await others.stop()
    forwarder = Forwarder(newark, kennedy, topic)
    await forwarder.start()
    try:
        while await forwarder.step(2.0):
            pass
        await publish(newark, topic, "c")
        while await forwarder.step(2.0):
            pass
    finally:
        await forwarder.stop()
    positions, last = progress_of(await kennedy.rows(FORWARDED), id, topic)
    extent = (await newark.extents(topic))[0]
    assert last[0].offset < positions[0].next <= extent.end
    assert not await standing_still(newark, kennedy, topic)


async def test_who_gives_up_waiting_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.sites.heard._MANY", 10)
    heard = Heard(["kennedy"])
    for offset in range(100):
        with suppress(TimeoutError):
            async with asyncio.timeout(0):
                await heard.copied(Origin("newark", "t", 0, offset), None)
    assert heard._count() < 25


async def test_another_number_of_partitions_there_is_told_and_refused(
    sites: tuple[Site, Site], unique: Callable[[str], str]
) -> None:
    newark, kennedy = sites
    topic = unique("movements")
    create(newark, topic, 3)
    missing = await standing_still(newark, kennedy, topic)
    assert missing == dict.fromkeys(range(3), f"site kennedy has no topic {topic}; make it there")
    create(kennedy, topic, 2)
    reason = f"{topic} has 3 partitions here and 2 at site kennedy: keys would be elsewhere"
    found = await standing_still(newark, kennedy, topic)
    assert list(found) == [0, 1, 2]
    assert all(each.startswith(reason) for each in found.values())
    with pytest.raises(SiteError, match=reason):
        await Forwarder(newark, kennedy, topic).start()
