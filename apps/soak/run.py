"""`scripts/soak`: rounds of harm to workers and broker with a check after each.

Seeded, bounded, and resumable: what is stopped goes on behind the last round that passed. A round
that fails leaves its topics, tables and logs as they are; one that passed leaves nothing.
"""

import random
import sys
import time
from collections import Counter
from pathlib import Path

from sequitur.local.broker import Broker
from sequitur.local.home import HOME
from soak.chaos import Soak, let_work
from soak.check import check
from soak.done import Round
from soak.harms import harm
from soak.rounds import Soaking
from soak.workload import SHAPES, Workload, shaped

EVENTS = 200_000
"""In a round."""
WORKERS = ("a", "b")
BROKER = "broker killed"
BACKLOG = "all stopped, a backlog"
# Every fourth round is at least once, and not in step with the shapes, so that both meet all.
WAYS = tuple(
    f"{'at_least' if n % 4 == 3 else 'exactly'}_once, {SHAPES[(n + n // 4) % len(SHAPES)].name}"
    for n in range(4 * len(SHAPES))
)


def run_round(broker: Broker, way: str, folder: Path, seed: int, count: int) -> Round:
    """Fill an input, do `count` bad things while two workers process it, check what came out.

    Raises RuntimeError with what is wrong.
    """
    print(f"{way}, seed {seed}", flush=True)
    guarantee, _, name = way.partition(", ")
    began, compacted = time.monotonic(), seed % 3 == 0
    shape = next(each for each in SHAPES if each.name == name)
    work = shaped(EVENTS, shape, seed)
    prefix = f"soak-{seed}-{int(time.time())}"
    soak = Soak(broker.address, prefix, folder, guarantee, worked=True, ring=shape.ring)
    what: Counter[str] = Counter()
    try:
        soak.fill(Workload([], {}))
        for name in WORKERS:
            soak.start(name)
        if compacted:
            # Deletions are soon forgotten by the changelogs, and tables that missed them told.
            soak.ready(WORKERS[0])
            soak.compact()
        _harm(soak, broker, random.Random(seed), work, count, what)
        soak.wait(600)
        soak.redrive(600)
        soak.stop_all()
        once, data = guarantee == "exactly_once", soak.data(WORKERS[0])
        wrong = check(
            soak.broker, soak.prefix, work, data, once=once, compacted=compacted, worked=True
        )
    except (RuntimeError, TimeoutError) as error:
        wrong = [str(error)]
    finally:
        soak.close()
    if wrong:
        raise RuntimeError(f"seed {seed} after {dict(what)}: " + "; ".join(wrong[:20]))
    soak.tidy()
    return Round(seed, way, len(work.messages), round(time.monotonic() - began), dict(what))


def _harm(
    soak: Soak,
    broker: Broker,
    chance: random.Random,
    work: Workload,
    count: int,
    what: Counter[str],
) -> None:
    part = len(work.messages) // count + 1
    for number in range(1, count + 1):
        # Part by part, so that there is work in hand at every harm, however fast it goes.
        messages = work.messages[(number - 1) * part : number * part]
        which = chance.random()
        if which < 0.04:
            soak.stop_all()
            soak.send(messages)
            for name in WORKERS:
                soak.start(name)
            done = BACKLOG
        else:
            soak.send(messages)
            let_work(soak, chance.randrange(part), 15)
            if which < 0.08:
                broker.kill()
                broker.start()
                done = BROKER
            else:
                done = harm(soak, chance, WORKERS)
        what[done] += 1
        print(f"  {number} of {count}: {done}", flush=True)


SOAKING = Soaking(
    "scripts/soak",
    __doc__,
    WAYS,
    harms=300,
    per_round=25,
    things="messages",
    holds="nothing lost, repeated or out of order; every state is the fold of its input",
    keeps=True,
    broker=True,
)


if __name__ == "__main__":
    sys.exit(SOAKING.main(None, HOME / "soak", run_round))
