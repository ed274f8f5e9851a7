"""The processes of the sites in a round: publishers, forwarders, routers, and people's commands."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sequitur.demo.processes import Child
from sequitur.local.broker import Broker

PARTITIONS = 3


class DrillFailed(RuntimeError):
    """A command or a process did not do what it is there for."""


@dataclass
class Processes:
    """What runs at the sites of a round, each of them as a process of its own.

    number: of the round; the topics come of it. children: by name, those that were started.
    """

    folder: Path
    brokers: Mapping[str, Broker]
    number: int
    children: dict[str, Child] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        """Where sites publish, and what is forwarded."""
        return f"movements-{self.number}"

    @property
    def routed(self) -> str:
        """Where routers send it on, each at its site."""
        return f"routed-{self.number}"

    def file(self, name: str) -> Path:
        """One of the round's files."""
        return self.folder / name

    def configure(self, own: str) -> None:
        """Write the files of a site: of its forwarders, and of its router."""
        lines = [f'own = "{own}"', f'topics = ["{self.topic}"]']
        for name, broker in self.brokers.items():
            lines += [f"[site.{name}]", f'broker = "{broker.address}"']
        self.file(f"{own}.toml").write_text("\n".join(lines) + "\n")
        lines = ["[router]", f'name = "drill-{self.number}"', f"partitions = {PARTITIONS}"]
        lines += [f'broker = "{self.brokers[own].address}"']
        lines += [f'[source.{self.topic}]\nrules = ["all"]', '[rule.all]\nto = "view"']
        lines += ["[destination.view]", f'address = "{self.routed}"']
        self.file(f"{own}-router.toml").write_text("\n".join(lines) + "\n")

    def route(self, own: str) -> None:
        """Start the router of a site."""
        data = {"SEQUITUR_DATADIR": str(self.file(f"{own}-router")), "SEQUITUR_INSTANCE": own}
        file = str(self.file(f"{own}-router.toml"))
        self._start(f"{own}-router", "sequitur", "route", "serve", file, env=data)

    def forward(self, own: str, peer: str | None = None) -> None:
        """Start a forwarder of a site, to one other site or to all."""
        words = ["sequitur", "sites", "forward", str(self.file(f"{own}.toml"))]
        self._start(f"{own}-{peer or 'forward'}", *words, *(["--peer", peer] if peer else []))

    def publish(self, own: str, copies: int) -> None:
        """Start the publisher of a site."""
        files = [f"{own}.toml", f"{own}.events", f"{own}.acked", "began"]
        words = [str(self.file(each)) for each in files]
        self._start(f"{own}-publish", "drill.publish", *words, str(copies))

    def _start(self, name: str, *words: str, env: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", *words]
        self.children[name] = Child(name, command, self.file(f"{name}.log"), env)

    async def command(self, word: str, own: str, *more: str, quiet: bool = False) -> str:
        """Run a command as a person would; returns what it says. Raises DrillFailed."""
        command = ["sequitur", "sites", word, str(self.file(f"{own}.toml")), *more]
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
