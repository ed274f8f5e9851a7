"""`scripts/soak delivery`: harm to everything between two databases, which must agree afterwards.

Seeded, bounded, and resumable: what is stopped goes on behind the last round that passed. Rounds
take turns: SQLite over HTTP, PostgreSQL over HTTP, PostgreSQL over Kafka, and that with two
databases on each side, by two-phase commit. A round that fails leaves its databases and logs.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from checkout.postgres import Postgres
from sequitur.local.broker import Broker
from sequitur.local.home import HOME
from soak.done import Round
from soak.rounds import Soaking
from soak_delivery.fleet import (
    INBOX_SERVER,
    LOG_SERVER,
    ORDERS_SERVER,
    WAREHOUSE_SERVER,
    Fleet,
)
from soak_delivery.harms import harm

TWO = ", two databases on each side"
WAYS = ("sqlite, http", "postgresql, http", "postgresql, kafka", f"postgresql, kafka{TWO}")
SETTLED = 180.0
"""Seconds within which all has to be delivered when the harm is over."""


@contextmanager
def fleet(way: str, folder: Path, seed: int, broker: Broker | None = None) -> Iterator[Fleet]:
    """A fleet with the servers that it needs, which end with it. broker: to use, if not its own."""
    database, _, transport = way.removesuffix(TWO).partition(", ")
    apart = (LOG_SERVER, INBOX_SERVER) if way.endswith(TWO) else ()
    with ExitStack() as stack:
        servers = {}
        if database == "postgresql":
            for name in (ORDERS_SERVER, WAREHOUSE_SERVER, *apart):
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
    print(f"{way}, seed {seed}", flush=True)
    began = time.monotonic()
    with fleet(way, folder, seed) as found:
        what, wrong = soak(found, count, seed)
        if wrong:
            raise RuntimeError(f"{way}, seed {seed}, after {what}: " + "; ".join(wrong[:10]))
        messages = found.messages()
    return Round(seed, way, messages, round(time.monotonic() - began), what)


SOAKING = Soaking(
    "scripts/soak delivery",
    __doc__,
    WAYS,
    harms=300,
    per_round=30,
    things="messages",
    holds="each delivered once and in order, none lost, none invented",
    keeps=True,
)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    return SOAKING.main(arguments, HOME / "soak-delivery", run_round)


if __name__ == "__main__":
    sys.exit(main())
