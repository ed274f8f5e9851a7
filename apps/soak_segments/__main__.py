"""`scripts/soak segments`: kills -9 between every two steps of the save store, and checks.

Seeded, bounded, and resumable. A round has one pair of transports and one save store. Its consumer
and its publisher in turn kill themselves at a step, one step further each time, while the other one
works.
"""

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from checkout import rabbitmq
from checkout.postgres import Postgres
from sequitur.local.broker import Broker
from sequitur.local.home import HOME
from soak.done import Round
from soak.rounds import Soaking
from soak_segments.media import MEDIA
from soak_segments.part import TWO_PHASES, Setting

STORES = ("segments, sqlite", "rows, sqlite", "rows, postgresql")
WAYS = (
    *(f"{one} → {other}, {each}" for one in MEDIA for other in MEDIA for each in STORES),
    *(f"sql → sql, {TWO_PHASES}, {each}" for each in ("sqlite", "postgresql")),
)
_PATIENCE = 240.0
"""Seconds for a step to be reached, or for all to come."""


class Killing:
    """Two parts, which are killed, and what comes of it."""

    def __init__(self, setting: Setting, stack: ExitStack) -> None:
        self._setting, self._filled, self._kills = setting, {0: 0, 1: 0}, 0
        setting.source.make([setting.name])
        setting.target.make(setting.destinations)
        setting.units().engine.dispose()
        self._parts = {role: setting.start(role) for role in setting.roles}
        for role in self._parts:
            stack.callback(self._end, role)

    def harm(self, role: str, step: int) -> str:
        """Kill a part wherever it is, and the next one at a step. Raises RuntimeError."""
        self._end(role)
        dead = self._parts[role] = self._setting.start(role, step)
        deadline = time.monotonic() + _PATIENCE
        while all(each.is_alive() for each in self._parts.values()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the {role} does not come to step {step}")
            for partition, count in self._filled.items():
                values = [self._setting.value(partition, n) for n in range(count, count + 6)]
                self._setting.source.fill(self._setting.name, partition, values)
                self._filled[partition] += 6
            dead.join(0.1)
        if dead.exitcode != -signal.SIGKILL:
            raise RuntimeError(f"a part ended by itself before step {step}: see its log")
        self._parts[role], self._kills = self._setting.start(role), self._kills + 2
        return f"{role} killed {(self._setting.folder / 'killed').read_text()}"

    def finish(self) -> int:
        """Wait until all has come; returns how many messages. Raises RuntimeError."""
        deadline = time.monotonic() + _PATIENCE
        while wrong := [*differences(self._setting, self._filled, self._kills)]:
            if time.monotonic() > deadline:
                raise RuntimeError("; ".join(wrong[:10]))
            time.sleep(0.1)
        return sum(self._filled.values())

    def _end(self, role: str) -> None:
        self._parts[role].kill()
        self._parts[role].join()


def differences(setting: Setting, filled: Mapping[int, int], kills: int) -> Iterator[str]:
    """What is wrong with the destinations. filled: partition → messages that were sent."""
    for destination in setting.destinations:
        got = setting.target.got(destination, setting.name)
        once = dict(got)
        if len(got) - len(once) > setting.target.repeats * kills:
            yield f"{destination}: {len(got) - len(once)} messages came again"
        if len(set(got)) > len(once):
            yield f"{destination}: {len(set(got)) - len(once)} came again with other ids"
        for partition, count in filled.items():
            sent = [setting.value(partition, n) for n in range(count)]
            expected = [each for each in sent if destination in each]
            found = [each for each in once if each.startswith(f'{{"at":[{partition},')]
            if found != expected:
                at = next((n for n, each in enumerate(expected) if found[n : n + 1] != [each]), -1)
                yield f"{destination}: {found[at:][:5]} came, {expected[at:][:5]} were sent"


def run_round(
    servers: Mapping[str, str],
    way: str,
    folder: Path,
    seed: int,
    count: int,
    first: int = 1,
    stride: int = 1,
) -> Round:
    """Do `count` kills, each `stride` steps further; raises RuntimeError with what is wrong."""
    began, what = time.monotonic(), Counter[str]()
    pair, segments, kind = way.split(", ")
    source, _, target = pair.partition(" → ")
    with ExitStack() as stack:
        database = f"sqlite:///{folder}/ledger.db"
        if kind == "postgresql":
            server = stack.enter_context(Postgres())
            database = server.new_database("soak")
            servers = {**servers, "sql": server.new_database("messages")}
        name = f"soak-{seed}-{int(time.time() * 1000)}"
        setting = Setting(source, target, segments, database, folder, servers, name)
        killing, roles = Killing(setting, stack), setting.roles
        try:
            for number in range(count):
                turn, which = divmod(number, len(roles))
                what[killing.harm(roles[which], first + turn * stride)] += 1
            messages = killing.finish()
        except RuntimeError as error:
            raise RuntimeError(f"{way}, seed {seed}, after {dict(what)}: {error}") from error
    return Round(seed, way, messages, round(time.monotonic() - began), dict(what))


SOAKING = Soaking(
    "scripts/soak segments",
    __doc__,
    WAYS,
    harms=100 * len(WAYS),
    per_round=100,
    things="messages",
    holds="nothing lost, repeated or out of order, per inbound partition and destination",
    keeps=True,
)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    soaking = SOAKING
    with ExitStack() as stack:
        broker = stack.enter_context(Broker(HOME / "soak-segments-broker"))
        servers = {"kafka": broker.address}
        if (missing := rabbitmq.missing()) is not None:
            print(missing, flush=True)
            ways = tuple(each for each in WAYS if "rabbitmq" not in each)
            soaking = replace(SOAKING, ways=ways, holds=f"{SOAKING.holds}. {missing}")
        else:
            rabbit = stack.enter_context(rabbitmq.RabbitMQ())
            servers |= {"rabbitmq": rabbit.url, "streams": str(rabbit.stream_port)}
        return soaking.main(arguments, HOME / "soak-segments", partial(run_round, servers))


if __name__ == "__main__":
    sys.exit(main())
