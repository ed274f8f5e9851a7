"""The process of a site that publishes: `python -m drill.publish FILE EVENTS ACKED BEGAN COPIES`.

It appends a line to ACKED for each message that is acknowledged: aircraft, number, partition and
offset. ACKED is there when it is ready; the file BEGAN says when all begin. What its topic has
already of this site's is not published again. SIGTERM: it publishes nothing more, and waits for
what is under way.
"""

import asyncio
import logging
import signal
import sys
import time
from pathlib import Path
from typing import Literal, cast

from aiokafka import TopicPartition

from drill.traffic import Movement
from drill.views import movement_of
from sequitur.sites.config import SitesFile, load_sites
from stores.sites import Site, SitePublisher
from stores.sites.origin import origin_of

_AT_ONCE = 500


async def published(site: Site, topic: str) -> set[Movement]:
    """The movements that a site has published itself."""
    found = set()
    for number, extent in (await site.extents(topic)).items():
        async for record in site.records(TopicPartition(topic, number), 0, extent.end):
            if origin_of(record.headers, topic) is None:
                found.add(movement_of(record.value))
    return found


async def publish(
    found: SitesFile, events: Path, acked: Path, began: Path, copies: Literal[0, 1]
) -> None:
    """Publish each event when it is due."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    (topic,) = found.topics
    before = await published(found.here, topic)
    publisher = SitePublisher(found.here, found.others(found.own), copies=copies, timeout=120)
    await publisher.start()
    free, sending = asyncio.Semaphore(_AT_ONCE), set[asyncio.Task[None]]()

    out = acked.open("ab", buffering=0)
    while not began.exists():
        await asyncio.sleep(0.05)
    start = float(began.read_text())

    async def send(tail: bytes, number: bytes, value: bytes) -> None:
        sent = await publisher.send(topic, value, tail)
        out.write(b"%s\t%s\t%d\t%d\n" % (tail, number, sent.partition, sent.offset))
        free.release()

    for line in events.read_bytes().splitlines():
        at, tail, number, value = line.split(b"\t", 3)
        if (tail.decode(), int(number)) in before:
            continue
        while not ended.is_set() and (left := start + float(at) - time.time()) > 0:
            await asyncio.sleep(min(left, 0.1))
        if ended.is_set():
            break
        await free.acquire()
        sending.add(task := asyncio.create_task(send(tail, number, value)))
        task.add_done_callback(sending.discard)
    await asyncio.gather(*sending)
    await publisher.stop()


def main() -> int:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    *files, copies = sys.argv[1:]
    file, events, acked, began = map(Path, files)
    told = cast(Literal[0, 1], int(copies))
    asyncio.run(publish(load_sites(file), events, acked, began, told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
