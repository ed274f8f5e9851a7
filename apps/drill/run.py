"""One round: traffic between three sites, the loss of one of them, takeover, return, merge.

At each site a router takes what is published there, and what comes from the others, to the view.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from aiokafka.admin import NewTopic

from drill.check import (
    There,
    acked,
    at_the_end,
    before_return,
    behind_loss,
    loss_shown,
    there,
)
from drill.processes import PARTITIONS, DrillFailed, Processes
from drill.publish import published
from drill.traffic import AIRPORTS, Traffic, write_traffic
from drill.views import View
from sequitur.demo.processes import stop_all
from sequitur.local.broker import Broker
from stores.sites import Site
from topology.model.ending import end_tasks

LOST = "kennedy"
OTHERS = tuple(name for name in AIRPORTS if name != LOST)
_PATIENCE = 90.0  # seconds without any progress


@dataclass
class Round:
    """A round of the drill over brokers that run.

    number: from 1 on; epochs and the topic come of it. say: prints a line.
    """

    folder: Path
    brokers: dict[str, Broker]
    number: int
    seed: int
    copies: Literal[0, 1]
    events: int
    rate: float
    say: Callable[[str], None]
    _phase: str = "traffic"

    async def run(self) -> list[str]:
        """Returns what is wrong; nothing if all is well. Raises DrillFailed, LocalError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draw = random.Random(self.seed)
        self._at = Processes(self.folder, self.brokers, self.number)
        self.sites = {
            name: Site(name, {"bootstrap_servers": broker.address})
            for name, broker in self.brokers.items()
        }
        traffic = write_traffic(self.events, self.rate, self.folder)
        self.say(
            f"round {self.number}, seed {self.seed}, copies {self.copies}: {traffic.total:,} "
            f"movements of {traffic.aircraft:,} aircraft, {traffic.shared:,} of them at several "
            "airports"
        )
        for site in self.sites.values():
            async with site.admin() as admin:
                new = [NewTopic(name, PARTITIONS, 1) for name in (self._at.topic, self._at.routed)]
                await admin.create_topics(new)
            self._at.configure(site.name)
        views = {name: View(site, self._at.routed) for name, site in self.sites.items()}
        try:
            async with self._shown(views, traffic):
                return await self._round(draw, traffic, views)
        finally:
            if killed := await asyncio.to_thread(stop_all, self._at.children.values()):
                self.say(f"  had to be killed: {', '.join(killed)}")

    async def _round(
        self, draw: random.Random, traffic: Traffic, views: dict[str, View]
    ) -> list[str]:
        for name in AIRPORTS:
            self._at.route(name)
        for name in OTHERS:
            self._at.forward(name)
        for peer in OTHERS:
            self._at.forward(LOST, peer)
        ways = [f"{name}-forward.log" for name in OTHERS] + [
            f"{LOST}-{peer}.log" for peer in OTHERS
        ]
        await self._until(lambda: sum(map(self._forwarding, ways)) == len(AIRPORTS) * 2)
        await self._until(lambda: all(map(self._routing, AIRPORTS)))
        for name in AIRPORTS:
            self._at.publish(name, self.copies)
        files = [self._at.file(f"{name}.acked") for name in AIRPORTS]
        await self._until(lambda: all(file.exists() for file in files))
        self._at.file("began.part").write_text(str(time.time()))
        self._at.file("began.part").rename(self._at.file("began"))
        broken, early = draw.choice(OTHERS), draw.uniform(1, 4)
        await asyncio.sleep(draw.uniform(0.1, 0.6) * self.events / self.rate)
        self.say(f"  the link from {LOST} to {broken} breaks (kill -9)")
        self._at.children[f"{LOST}-{broken}"].kill()
        await asyncio.sleep(early)
        lost = await self._lose(draw)
        self._phase = f"{LOST} lost"
        await asyncio.sleep(draw.uniform(1, 3))
        wrong = await self._gaps_shown(views, traffic)
        why = ("--reason", "drill")
        epoch = 2 * self.number
        self.say(await self._at.command("takeover", OTHERS[0], LOST, f"--epoch={epoch - 1}", *why))
        self._phase = "taken over"
        have = {name: await self._routed(name) for name in OTHERS}
        known = acked(self._at.file(f"{LOST}.acked"))
        wrong += before_return(self.copies, known, lost, have)
        missing = {name: len(set(known.values()) - set(have[name].movements)) for name in OTHERS}
        self.say(f"  {len(known):,} were acknowledged at {LOST}; missing of them: {missing}")
        await asyncio.sleep(draw.uniform(1, 3))
        await asyncio.to_thread(self.brokers[LOST].start)
        self._at.route(LOST)
        for peer in OTHERS:
            self._at.forward(LOST, peer)
        doubt = await published(self.sites[LOST], self._at.topic) - set(known.values())
        self.say(f"  {LOST} answers again, fenced; it has {len(doubt)} that were not acknowledged")
        self.say(await self._at.command("return", OTHERS[0], LOST, f"--epoch={epoch}", *why))
        self._phase = "returned"
        self._at.publish(LOST, self.copies)
        await self._all_there(traffic, views)
        self.say(said := await self._at.command("gaps", OTHERS[1]))
        have = {name: await self._routed(name) for name in self.sites}
        wrong += at_the_end(traffic, have, views)
        return wrong if said.endswith("\n  none") else [*wrong, "gaps are left"]

    async def _lose(self, draw: random.Random) -> list[dict[str, Any]]:
        """Kill the site; with copies=0, its links first, so that the lag can be asked."""
        links = [self._at.children[f"{LOST}-{peer}"] for peer in OTHERS]
        for link in links:
            link.kill()
        lost: list[dict[str, Any]] = []
        if not self.copies:
            self.say(f"  all links of {LOST} break (kill -9)")
            await asyncio.sleep(draw.uniform(0.2, 1.5))
            publisher = self._at.children[f"{LOST}-publish"]
            publisher.terminate()
            if not await asyncio.to_thread(publisher.ended, time.monotonic() + 30):
                raise DrillFailed(f"the publisher at {LOST} does not end")
            said = await self._at.command("lag", LOST, "--json", quiet=True)
            lost = [each for each in orjson.loads(said)["behind"] if not each["site"]]
            self.say(f"  the lag: {sum(each['messages'] for each in lost)} would be lost")
        self.say(f"  {LOST} is lost (kill -9)")
        for each in ("publish", "router"):
            self._at.children[f"{LOST}-{each}"].kill()
        await asyncio.to_thread(self.brokers[LOST].kill)
        return lost

    async def _gaps_shown(self, views: dict[str, View], traffic: Traffic) -> list[str]:
        """What is wrong in how the views show the loss; they are given time to do so."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            gaps = {
                name: behind_loss(
                    traffic.of[LOST],
                    await there(self.sites[name], self._at.routed, self._at.topic),
                )
                for name in OTHERS
            }
            wrong = loss_shown(gaps, views)
            if not wrong or time.monotonic() > deadline:
                each = ", ".join(f"{name} {len(found)}" for name, found in gaps.items())
                self.say(f"  aircraft that wait for what is lost: {each}")
                return wrong
            await asyncio.sleep(0.5)

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not holds():
            for child in self._at.children.values():
                child.check()
            if time.monotonic() > deadline:
                raise DrillFailed(f"it does not begin; the logs are in {self.folder}")
            await asyncio.sleep(0.1)

    async def _routed(self, name: str) -> There:
        """What the router of a site has sent on, once that is all that has come by now."""
        site, topic = self.sites[name], self._at.topic
        came, moved, seen = await there(site, topic, topic), time.monotonic(), -1
        while True:
            found = await there(site, self._at.routed, topic)
            if came.movements <= found.movements:
                return found
            if (now := found.movements.total()) != seen:
                moved, seen = time.monotonic(), now
            if time.monotonic() - moved > _PATIENCE:
                self.say(f"  the router at {name} stands still")
                return found
            await asyncio.sleep(0.5)

    def _routing(self, name: str) -> bool:
        return "rules 1 are decided" in self._at.file(f"{name}-router.log").read_text()

    def _forwarding(self, log: str) -> int:
        return self._at.file(log).read_text().count(": forwarding\n")

    async def _all_there(self, traffic: Traffic, views: dict[str, View]) -> None:
        """Wait until each view has all, or nothing moves any more."""
        moved, seen = time.monotonic(), -1
        while (now := sum(view.ready for view in views.values())) < 3 * traffic.total:
            if now != seen:
                moved, seen = time.monotonic(), now
            if time.monotonic() - moved > _PATIENCE:
                self.say("  nothing moves any more")
                return
            await asyncio.sleep(0.2)

    @asynccontextmanager
    async def _shown(self, views: dict[str, View], traffic: Traffic) -> AsyncIterator[None]:
        """Let the views follow, and show them once a second."""
        began = time.monotonic()

        async def show() -> None:
            while True:
                await asyncio.sleep(1)
                each = (
                    f"{name} {view.ready:,}, {view.waiting:,} wait behind {view.gaps:,} gaps"
                    for name, view in views.items()
                )
                self.say(f"  {time.monotonic() - began:4.0f} s  {' | '.join(each)}  {self._phase}")

        tasks = [asyncio.create_task(view.follow()) for view in views.values()]
        tasks.append(asyncio.create_task(show()))
        try:
            yield
        finally:
            await end_tasks(*tasks)
