"""Processes that a test kills and stops, and what their common log must show."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

from sequitur.local.process import spawn
from tests.stores.units.conftest import TOKEN, Destination

LEASE = 2.0


class Chaos:
    """Servers and consumers of a destination, as processes.

    seed: of what happens to them.
    """

    def __init__(self, there: Destination, folder: Path, seed: int) -> None:
        self.there, self.folder = there, folder
        self.log = folder / "work.log"
        self.random = random.Random(seed)
        self.processes: dict[str, list[subprocess.Popen[bytes]]] = {
            kind: [] for kind in ("paths", "server", "consumer", "producer")
        }
        self.told: list[str] = []

    def start(self, kind: str, *more: str) -> None:
        broker = self.there.kafka["bootstrap_servers"]
        if kind == "server":
            words = ["-m", "sequitur", "units", "serve", "--destination", self.there.name]
            words += ["--group", self.there.group, "--broker", broker, "--port", "0"]
            words += ["--lease", f"{LEASE:g}s"]
        elif kind == "paths":
            words = ["-m", "sequitur", "units", "paths", "serve", "--destination", self.there.name]
            words += ["--broker", broker, "--port", "0", "--lease", f"{LEASE:g}s"]
        elif kind == "producer":
            words = [str(Path(__file__).with_name("chaos_producer.py")), broker, self.there.name]
            words += [TOKEN, *more]
        else:
            words = [str(Path(__file__).with_name("chaos_consumer.py")), broker, self.there.name]
            words += [self.there.group, TOKEN, str(self.log), "0.005"]
        with (self.folder / f"{kind}.log").open("ab") as output:
            process = spawn(
                [sys.executable, *words], output=output, env={**os.environ, "UNITS_TOKEN": TOKEN}
            )
        self.processes[kind].append(process)

    def harm(self, what: str | None = None) -> None:
        """Kill one and start another, or stop one for longer than its lease (a zombie)."""
        what = what or self.random.choice(
            ["kill consumer", "stop consumer", "kill server", "stop server"]
        )
        action, kind = what.split()
        victim = self.random.choice(self.processes[kind])
        self.told.append(f"{what} {victim.pid}")
        if action == "kill":
            victim.kill()
            victim.wait()
            self.processes[kind].remove(victim)
            self.start(kind)
        else:
            victim.send_signal(signal.SIGSTOP)
            # The group misses a server after 6 seconds; another one owns its members then.
            time.sleep(9 if kind in ("server", "paths") else LEASE * self.random.uniform(0.5, 2.5))
            victim.send_signal(signal.SIGCONT)

    def end(self) -> None:
        for process in [each for kind in self.processes.values() for each in kind]:
            process.kill()
            process.wait()

    def ended(self) -> int:
        """How many messages have ended, each counted once."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return len({tuple(line.split()[2:]) for line in lines if line.startswith("end")})


def check(log: str, units: int, each: int) -> dict[str, int]:
    """Nothing is lost, nothing overtakes, no unit is with two at once; counts what came again."""
    last: dict[str, int] = defaultdict(lambda: -1)
    holder: dict[str, tuple[str, int]] = {}
    again = 0
    for number, line in enumerate(log.splitlines(), 1):
        what, pid, unit, value = line.split()
        now = int(value)
        if what == "start":
            assert now <= last[unit] + 1, f"line {number}: {line} overtakes {last[unit] + 1}"
            again += now <= last[unit]
            holder[unit] = pid, now
        else:
            assert holder.get(unit) == (pid, now), (
                f"line {number}: {line}, but the unit is with {holder.get(unit)}"
            )
            last[unit] = max(last[unit], now)
    assert dict(last) == {f"u{unit}": each - 1 for unit in range(units)}, "something is lost"
    return {"again": again}
