"""`scripts/soak delivery`: harm to everything between two databases, which must agree afterwards.

Seeded, bounded, and resumable: what is stopped goes on behind the last round that passed. Rounds
take turns: SQLite over HTTP, PostgreSQL over HTTP, PostgreSQL over Kafka. A round that fails leaves
its databases and logs as they are.
"""

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType

from apps.local.broker import Broker
from apps.local.home import HOME
from apps.local.postgres import Postgres
from apps.soak.done import Done, Round, lasts, load, save
from apps.soak_delivery.fleet import ORDERS_SERVER, WAREHOUSE_SERVER, Fleet
from apps.soak_delivery.harms import harm

WAYS = ("sqlite, http", "postgresql, http", "postgresql, kafka")
SETTLED = 180.0
"""Seconds within which all has to be delivered when the harm is over."""


@contextmanager
def fleet(way: str, folder: Path, seed: int, broker: Broker | None = None) -> Iterator[Fleet]:
    """A fleet with the servers that it needs, which end with it. broker: to use, if not its own."""
    database, _, transport = way.partition(", ")
    with ExitStack() as stack:
        servers = {}
        if database == "postgresql":
            for name in (ORDERS_SERVER, WAREHOUSE_SERVER):
                servers[name] = stack.enter_context(Postgres())
        if transport == "kafka" and broker is None:
            broker = stack.enter_context(Broker(folder / "broker"))
        found = Fleet(folder, seed, broker if transport == "kafka" else None, servers)
        stack.callback(found.close)
        yield found


def soak(found: Fleet, count: int, seed: int, say: bool = True) -> tuple[dict[str, int], list[str]]:
    """Do `count` harms and let all be delivered; returns what was done, and what is wrong."""
    chance, what = random.Random(seed), Counter[str]()
    try:
        found.begin()
    except RuntimeError as error:
        return {}, [str(error)]
    for number in range(1, count + 1):
        done = harm(found, chance)
        what[done] += 1
        if say:
            print(f"  {number} of {count}: {done}", flush=True)
    return dict(what), found.settle(SETTLED)


def run_round(way: str, folder: Path, seed: int, count: int) -> Round:
    """A round. Raises RuntimeError with what is wrong."""
    began = time.monotonic()
    with fleet(way, folder, seed) as found:
        what, wrong = soak(found, count, seed)
        if wrong:
            raise RuntimeError(f"{way}, seed {seed}, after {what}: " + "; ".join(wrong[:10]))
        messages = found.messages()
    shutil.rmtree(folder, ignore_errors=True)
    return Round(seed, way, messages, round(time.monotonic() - began), what)


def table(done: Done) -> str:
    """All rounds, a line for each harm."""
    found: Counter[str] = Counter()
    for each in done.rounds:
        found.update(each.harms)
    lines = [f"{name:32}{count:>6}" for name, count in sorted(found.items())]
    messages = sum(each.messages for each in done.rounds)
    return "\n".join(lines) + (
        f"\n{done.harms} harms in {len(done.rounds)} rounds, {messages:,} messages, "
        f"{lasts(done.seconds)}: each delivered once and in order, none lost, none invented"
    )


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/soak delivery", description=__doc__)
    parser.add_argument("--harms", type=int, default=300, help="bad things to do in all")
    parser.add_argument("--per-round", type=int, default=30, help="of them in one round")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an earlier run")
    parser.add_argument("--way", action="append", choices=WAYS, help="default: all, in turn")
    options = parser.parse_args(arguments)

    def end(*_: FrameType | int | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    ways = options.way or WAYS
    home = HOME / "soak-delivery"
    state = home / "done.json"
    done = load(state, options.seed)
    if options.fresh or done is None or done.harms >= options.harms:
        shutil.rmtree(home, ignore_errors=True)
        done = Done(options.seed)
    elif done.rounds:
        print(f"going on after {len(done.rounds)} rounds with {done.harms} harms", flush=True)
    home.mkdir(parents=True, exist_ok=True)
    try:
        while done.harms < options.harms:
            count = min(options.per_round, options.harms - done.harms)
            way = ways[len(done.rounds) % len(ways)]
            print(f"round {len(done.rounds) + 1}: {way}, seed {done.next_seed}", flush=True)
            folder = Path(tempfile.mkdtemp(dir=home, prefix=f"round-{done.next_seed}-"))
            found = run_round(way, folder, done.next_seed, count)
            done.rounds.append(found)
            save(state, done)
            print(f"{found}", flush=True)
    except KeyboardInterrupt:
        print(f"stopped after {done.harms} harms; run it again to go on", flush=True)
        return 130
    except RuntimeError as error:
        print(f"FAILED: {error}\nits logs and databases are in {home}", flush=True)
        return 1
    print(table(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
