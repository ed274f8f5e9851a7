"""`scripts/soak`: rounds of kills with a check after each; seeded, bounded, resumable."""

import argparse
import json
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from apps.local.broker import Broker
from apps.local.home import HOME
from apps.soak.chaos import Soak, harm, let_work
from apps.soak.check import check
from apps.soak.workload import workload

WORKERS = ("a", "b")


@dataclass
class Done:
    """How far a soak is: kept in a file after each round."""

    seed: int
    rounds: int = 0
    harms: int = 0


def one_round(broker: Broker, folder: Path, seed: int, harms: int, events: int, once: bool) -> None:
    """Fill an input, do `harms` bad things while two workers process it, check what came out.

    Raises RuntimeError with what is wrong.
    """
    chance = random.Random(seed)
    work = workload(events, streams=300, seed=seed)
    guarantee = "exactly_once" if once else "at_least_once"
    soak = Soak(broker.address, f"soak-{seed}-{int(time.time())}", folder, guarantee)
    what: Counter[str] = Counter()
    try:
        soak.fill(work)
        for name in WORKERS:
            soak.start(name)
        for _ in range(harms):
            let_work(soak, chance.randrange(2 * len(work.messages) // harms), 15)
            if chance.random() < 0.05:
                broker.kill()
                broker.start()
                what["kill broker"] += 1
            else:
                what[harm(soak, chance, list(WORKERS)).rsplit(" ", 1)[0]] += 1
        soak.wait(300)
        soak.stop_all()
        wrong = check(broker.address, soak.prefix, work, soak.data("a"), once=once)
    finally:
        for name in list(soak.workers):
            soak.kill(name)
    if wrong:
        raise RuntimeError(f"seed {seed}: " + "; ".join(wrong[:20]))
    done = ", ".join(f"{n} × {name}" for name, n in sorted(what.items()))
    print(
        f"seed {seed}, {guarantee}: {len(work.messages):,} messages right after {done}", flush=True
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="bad things to do in all")
    parser.add_argument("--per-round", type=int, default=25, help="of them in one round")
    parser.add_argument("--events", type=int, default=200_000, help="events in a round")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an earlier run")
    options = parser.parse_args()

    def end(*_: FrameType | int | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    home = HOME / "soak"
    home.mkdir(parents=True, exist_ok=True)
    state = home / "done.json"
    done = Done(options.seed)
    if state.exists() and not options.fresh:
        found = Done(**json.loads(state.read_text()))
        if found.seed == options.seed and found.harms < options.kills:
            done = found
            print(f"going on after {done.rounds} rounds with {done.harms} harms", flush=True)
    try:
        with Broker(home / "broker") as broker:
            while done.harms < options.kills:
                harms = min(options.per_round, options.kills - done.harms)
                seed = options.seed + done.rounds
                folder = home / f"round-{seed}"
                one_round(broker, folder, seed, harms, options.events, once=done.rounds % 4 != 3)
                done.rounds, done.harms = done.rounds + 1, done.harms + harms
                state.write_text(json.dumps(asdict(done)))
    except KeyboardInterrupt:
        print(f"stopped after {done.harms} harms; run it again to go on", flush=True)
        return 130
    except RuntimeError as error:
        print(f"FAILED: {error}\nworkers' logs and tables are in {home}", flush=True)
        return 1
    print(f"soak passed: {done.harms} harms in {done.rounds} rounds, nothing lost or repeated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
