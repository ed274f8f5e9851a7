"""`python -m apps.soak_capture`: kills producers that capture, and the servers of their databases.

Seeded, bounded, and resumable: what is stopped goes on behind the last round that passed. Rounds
take turns: one database or two, with the shop in SQLite or PostgreSQL.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

from apps.local.home import HOME
from apps.local.postgres import Postgres
from apps.soak.done import Done, Round, lasts, load, save
from apps.soak_capture.place import Place
from apps.soak_capture.producer import quiet

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


def table(done: Done) -> str:
    """All rounds, a line for each harm."""
    found: Counter[str] = Counter()
    for each in done.rounds:
        found.update(each.harms)
    lines = [f"{name:32}{count:>6}" for name, count in sorted(found.items())]
    orders = sum(each.messages for each in done.rounds)
    return "\n".join(lines) + (
        f"\n{done.harms} harms in {len(done.rounds)} rounds, {orders:,} orders, "
        f"{lasts(done.seconds)}: each has its messages, none was invented, no sequence is missing"
    )


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m apps.soak_capture", description=__doc__)
    parser.add_argument("--harms", type=int, default=200, help="bad things to do in all")
    parser.add_argument("--per-round", type=int, default=20, help="of them in one round")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an earlier run")
    parser.add_argument("--way", action="append", choices=WAYS, help="default: all, in turn")
    options = parser.parse_args(arguments)
    quiet()

    def end(*_: FrameType | int | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    ways = options.way or WAYS
    home = HOME / "soak-capture"
    done = load(home / "done.json", options.seed)
    if options.fresh or done is None or done.harms >= options.harms:
        shutil.rmtree(home, ignore_errors=True)
        done = Done(options.seed)
    home.mkdir(parents=True, exist_ok=True)
    try:
        while done.harms < options.harms:
            count = min(options.per_round, options.harms - done.harms)
            way = ways[len(done.rounds) % len(ways)]
            with tempfile.TemporaryDirectory(dir=home) as folder:
                done.rounds.append(run_round(way, Path(folder), done.next_seed, count))
            save(home / "done.json", done)
            print(done.rounds[-1], flush=True)
    except KeyboardInterrupt:
        print(f"stopped after {done.harms} harms; run it again to go on", flush=True)
        return 130
    except RuntimeError as error:
        print(f"FAILED: {error}", flush=True)
        return 1
    print(table(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
