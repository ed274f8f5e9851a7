"""`scripts/soak capture`: kills producers that capture, and the servers of their databases.

Seeded, bounded, and resumable: what is stopped goes on behind the last round that passed. Rounds
take turns: one database or two, with the shop in SQLite or PostgreSQL.
"""

import random
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path

from checkout.postgres import Postgres
from sequitur.local.home import HOME
from soak.done import Round
from soak.rounds import Soaking
from soak_capture.place import Place
from soak_capture.producer import quiet

WAYS = ("one, sqlite", "one, postgresql", "two, sqlite", "two, postgresql")
PRODUCERS = 2
ENDLESS = 1_000_000
STEPS = 600
"""Of these a producer kills itself at one."""


def run_round(way: str, folder: Path, seed: int, count: int) -> Round:
    """Do `count` harms while producers run; raises RuntimeError with what is wrong."""
    began, chance, what = time.monotonic(), random.Random(seed), Counter[str]()
    form, _, kind = way.partition(", ")
    with ExitStack() as stack:
        servers = [stack.enter_context(Postgres()) for _ in range(_servers(form, kind))]
        databases = [server.new_database("soak") for server in servers]
        shop = databases[0] if kind == "postgresql" else f"sqlite:///{folder}/shop.sqlite"
        place = Place(form, shop, databases[-1] if form == "two" else shop)
        stack.callback(place.close)
        producers: list[BaseProcess] = []
        stack.callback(_kill, producers)

        def start() -> None:
            number = chance.randrange(1 << 30)
            producers.append(place.start(number, chance.randrange(1, STEPS), ENDLESS))

        for _ in range(PRODUCERS):
            start()
        while sum(what.values()) < count:
            _harm(chance, place, servers, producers, what)
            while len(producers) < PRODUCERS:
                start()
        _kill(producers)
        wrong = place.wrong()
        if wrong:
            raise RuntimeError(f"{way}, seed {seed}, after {dict(what)}: " + "; ".join(wrong[:10]))
        orders = place.orders()
    return Round(seed, way, orders, round(time.monotonic() - began), dict(what))


def _kill(producers: list[BaseProcess]) -> None:
    for process in producers:
        process.kill()
        process.join()


def _servers(form: str, kind: str) -> int:
    return (kind == "postgresql") + (form == "two")


def _harm(
    chance: random.Random,
    place: Place,
    servers: list[Postgres],
    producers: list[BaseProcess],
    what: Counter[str],
) -> None:
    """Wait until a producer is killed, by itself or now; or restart a server."""
    if servers and chance.random() < 0.3:
        server = chance.choice(servers)
        time.sleep(chance.random() / 2)
        server.kill()
        time.sleep(chance.random() / 5)
        server.start()
        what["server killed"] += 1
        before = place.orders()
        while place.orders() <= before and all(process.is_alive() for process in producers):
            time.sleep(0.02)  # it is used again
        return
    deadline = time.monotonic() + chance.random() * 3
    while time.monotonic() < deadline and all(process.is_alive() for process in producers):
        time.sleep(0.02)
    dead = next((process for process in producers if not process.is_alive()), None)
    what["producer killed from outside" if dead is None else "producer killed at a step"] += 1
    gone = dead or chance.choice(producers)
    gone.kill()
    gone.join()
    if gone.exitcode != -signal.SIGKILL:
        raise RuntimeError(f"a producer ended with {gone.exitcode}")
    producers.remove(gone)


SOAKING = Soaking(
    "scripts/soak capture",
    __doc__,
    WAYS,
    harms=200,
    per_round=20,
    things="orders",
    holds="each has its messages, none was invented, no sequence is missing",
)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    quiet()
    return SOAKING.main(arguments, HOME / "soak-capture", run_round)


if __name__ == "__main__":
    sys.exit(main())
