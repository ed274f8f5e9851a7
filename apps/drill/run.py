"""One round: traffic between three sites, the loss of one of them, takeover, return, merge."""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson
from aiokafka.admin import NewTopic

from drill.check import acked, at_the_end, before_return, there
from drill.publish import published
from drill.traffic import AIRPORTS, Traffic, write_traffic
from drill.views import View
from sequitur.demo.processes import Child, stop_all
from sequitur.local.broker import Broker
from stores.sites import Site
from topology.model.ending import end_tasks

LOST = "kennedy"
OTHERS = tuple(name for name in AIRPORTS if name != LOST)
PARTITIONS = 3
_PATIENCE = 90.0  # seconds without any progress


class DrillFailed(RuntimeError):
    """A command or a process did not do what it is there for."""


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
    _children: dict[str, Child] = field(default_factory=dict)
    _phase: str = "traffic"

    async def run(self) -> list[str]:
        """Returns what is wrong; nothing if all is well. Raises DrillFailed, LocalError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        draw = random.Random(self.seed)
        self.topic = f"movements-{self.number}"
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
                await admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])
            self._configure(site.name)
        views = {name: View(site, self.topic) for name, site in self.sites.items()}
        try:
            async with self._shown(views, traffic):
                return await self._round(draw, traffic, views)
        finally:
            if killed := await asyncio.to_thread(stop_all, self._children.values()):
                self.say(f"  had to be killed: {', '.join(killed)}")

    async def _round(
        self, draw: random.Random, traffic: Traffic, views: dict[str, View]
    ) -> list[str]:
        for name in OTHERS:
            self._forward(name)
        for peer in OTHERS:
            self._forward(LOST, peer)
        ways = [f"{name}-forward.log" for name in OTHERS] + [
            f"{LOST}-{peer}.log" for peer in OTHERS
        ]
        await self._until(lambda: sum(map(self._forwarding, ways)) == len(AIRPORTS) * 2)
        for name in AIRPORTS:
            self._publish(name)
        files = [self._file(f"{name}.acked") for name in AIRPORTS]
        await self._until(lambda: all(file.exists() for file in files))
        self._file("began.part").write_text(str(time.time()))
        self._file("began.part").rename(self._file("began"))
        broken, early = draw.choice(OTHERS), draw.uniform(1, 4)
        await asyncio.sleep(draw.uniform(0.1, 0.6) * self.events / self.rate)
        self.say(f"  the link from {LOST} to {broken} breaks (kill -9)")
        self._children[f"{LOST}-{broken}"].kill()
        await asyncio.sleep(early)
        lost = await self._lose(draw)
        self._phase = f"{LOST} lost"
        await asyncio.sleep(draw.uniform(1, 3))
        why = ("--reason", "drill")
        epoch = 2 * self.number
        self.say(await self._sequitur("takeover", OTHERS[0], LOST, f"--epoch={epoch - 1}", *why))
        self._phase = "taken over"
        have = {name: await there(self.sites[name], self.topic) for name in OTHERS}
        known = acked(self._file(f"{LOST}.acked"))
        wrong = before_return(self.copies, known, lost, have)
        missing = {name: len(set(known.values()) - set(have[name].movements)) for name in OTHERS}
        self.say(f"  {len(known):,} were acknowledged at {LOST}; missing of them: {missing}")
        await asyncio.sleep(draw.uniform(1, 3))
        await asyncio.to_thread(self.brokers[LOST].start)
        for peer in OTHERS:
            self._forward(LOST, peer)
        doubt = await published(self.sites[LOST], self.topic) - set(known.values())
        self.say(f"  {LOST} answers again, fenced; it has {len(doubt)} that were not acknowledged")
        self.say(await self._sequitur("return", OTHERS[0], LOST, f"--epoch={epoch}", *why))
        self._phase = "returned"
        self._publish(LOST)
        await self._all_there(traffic, views)
        self.say(said := await self._sequitur("gaps", OTHERS[1]))
        have = {name: await there(site, self.topic) for name, site in self.sites.items()}
        wrong += at_the_end(traffic, have, views)
        return wrong if said.endswith("\n  none") else [*wrong, "gaps are left"]

    async def _lose(self, draw: random.Random) -> list[dict[str, Any]]:
        """Kill the site; with copies=0, its links first, so that the lag can be asked."""
        links = [self._children[f"{LOST}-{peer}"] for peer in OTHERS]
        for link in links:
            link.kill()
        lost: list[dict[str, Any]] = []
        if not self.copies:
            self.say(f"  all links of {LOST} break (kill -9)")
            await asyncio.sleep(draw.uniform(0.2, 1.5))
            publisher = self._children[f"{LOST}-publish"]
            publisher.terminate()
            if not await asyncio.to_thread(publisher.ended, time.monotonic() + 30):
                raise DrillFailed(f"the publisher at {LOST} does not end")
            said = await self._sequitur("lag", LOST, "--json", quiet=True)
            lost = [each for each in orjson.loads(said)["behind"] if not each["site"]]
            self.say(f"  the lag: {sum(each['messages'] for each in lost)} would be lost")
        self.say(f"  {LOST} is lost (kill -9)")
        self._children[f"{LOST}-publish"].kill()
        await asyncio.to_thread(self.brokers[LOST].kill)
        return lost

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not holds():
            for child in self._children.values():
                child.check()
            if time.monotonic() > deadline:
                raise DrillFailed(f"it does not begin; the logs are in {self.folder}")
            await asyncio.sleep(0.1)

    def _forwarding(self, log: str) -> int:
        return self._file(log).read_text().count(": forwarding\n")

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

    def _configure(self, own: str) -> None:
        lines = [f'own = "{own}"', f'topics = ["{self.topic}"]']
        for name, broker in self.brokers.items():
            lines += [f"[site.{name}]", f'broker = "{broker.address}"']
        self._file(f"{own}.toml").write_text("\n".join(lines) + "\n")

    def _forward(self, own: str, peer: str | None = None) -> None:
        words = ["sequitur", "sites", "forward", str(self._file(f"{own}.toml"))]
        self._start(f"{own}-{peer or 'forward'}", *words, *(["--peer", peer] if peer else []))

    def _publish(self, own: str) -> None:
        files = [f"{own}.toml", f"{own}.events", f"{own}.acked", "began"]
        words = [str(self._file(each)) for each in files]
        self._start(f"{own}-publish", "drill.publish", *words, str(self.copies))

    def _start(self, name: str, *words: str) -> None:
        command = [sys.executable, "-m", *words]
        self._children[name] = Child(name, command, self._file(f"{name}.log"))

    async def _sequitur(self, word: str, own: str, *more: str, quiet: bool = False) -> str:
        """Run a command as a person would; returns what it says. Raises DrillFailed."""
        command = ["sequitur", "sites", word, str(self._file(f"{own}.toml")), *more]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *command, stdout=pipe, stderr=pipe
        )
        out, err = await asyncio.wait_for(process.communicate(), 120)
        if process.returncode not in (0, 1):
            raise DrillFailed(f"sites {word}: {out.decode()}{err.decode()}")
        if quiet:
            return out.decode()
        lines = out.decode().splitlines()
        shown = [f"{own}.toml", *more]
        return "\n  ".join([f"  $ sequitur sites {word} {' '.join(shown)}", *lines])

    def _file(self, name: str) -> Path:
        return self.folder / name
