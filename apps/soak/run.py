"""`scripts/soak`: rounds of harm to workers and broker with a check after each.

Seeded, bounded, and resumable: what is stopped goes on behind the last round that passed. A round
that fails leaves its topics, tables and logs as they are; one that passed leaves nothing.
"""

import argparse
import random
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

from sequitur.cli.signals import interrupted_by
from sequitur.local.broker import Broker
from sequitur.local.home import HOME
from soak.chaos import Soak, let_work
from soak.check import check
from soak.done import Done, Round, lasts, load, save, table
from soak.harms import harm
from soak.workload import SHAPES, Workload, shaped

WORKERS = ("a", "b")
BROKER = "broker killed"
BACKLOG = "all stopped, a backlog"


class Rounds:
    """The rounds of a run: `total` harms, `events` in each round."""

    def __init__(self, broker: Broker, home: Path, done: Done, total: int, events: int) -> None:
        self.broker = broker
        self.home = home
        self.done = done
        self.total = total
        self.events = events

    def run(self, harms: int) -> Round:
        """Fill an input, do `harms` bad things while two workers process it, check what came out.

        Raises RuntimeError with what is wrong.
        """
        seed = self.done.next_seed
        # Every fourth round is at least once.
        guarantee = "at_least_once" if len(self.done.rounds) % 4 == 3 else "exactly_once"
        began, compacted = time.monotonic(), seed % 3 == 0
        # Not in step with the guarantee: both meet all shapes.
        shape = SHAPES[(len(self.done.rounds) + len(self.done.rounds) // 4) % len(SHAPES)]
        work = shaped(self.events, shape, seed)
        print(f"round {len(self.done.rounds) + 1}: {shape.name}, {guarantee}", flush=True)
        folder = self.home / f"round-{seed}"
        prefix = f"soak-{seed}-{int(time.time())}"
        soak = Soak(self.broker.address, prefix, folder, guarantee, worked=True)
        what: Counter[str] = Counter()
        try:
            soak.fill(Workload([], {}))
            for name in WORKERS:
                soak.start(name)
            if compacted:
                # Deletions are soon forgotten by the changelogs, and tables that missed them told.
                soak.ready(WORKERS[0])
                soak.compact()
            self._harm(soak, random.Random(seed), work, harms, what, began)
            soak.wait(600)
            soak.redrive(600)
            soak.stop_all()
            once = guarantee == "exactly_once"
            data = soak.data(WORKERS[0])
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
        seconds = round(time.monotonic() - began)
        return Round(seed, guarantee, len(work.messages), seconds, dict(what))

    def _harm(
        self,
        soak: Soak,
        chance: random.Random,
        work: Workload,
        harms: int,
        what: Counter[str],
        began: float,
    ) -> None:
        part = len(work.messages) // harms + 1
        for number in range(1, harms + 1):
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
                    self.broker.kill()
                    self.broker.start()
                    done = BROKER
                else:
                    done = harm(soak, chance, WORKERS)
            what[done] += 1
            all_done = self.done.harms + number
            took = self.done.seconds + time.monotonic() - began
            left = took / all_done * (self.total - all_done)
            print(
                f"round {len(self.done.rounds) + 1}, {number} of {harms}: {done}; "
                f"{all_done} of {self.total} in {lasts(took)}, about {lasts(left)} left",
                flush=True,
            )


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--harms", type=int, default=300, help="bad things to do in all")
    parser.add_argument("--per-round", type=int, default=25, help="of them in one round")
    parser.add_argument("--events", type=int, default=200_000, help="events in a round")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an earlier run")
    options = parser.parse_args()

    interrupted_by(signal.SIGTERM)
    home = HOME / "soak"
    state = home / "done.json"
    done = load(state, options.seed)
    if options.fresh or done is None or done.harms >= options.harms:
        shutil.rmtree(home, ignore_errors=True)
        done = Done(options.seed)
    elif done.rounds:
        print(f"going on after {len(done.rounds)} rounds with {done.harms} harms", flush=True)
    home.mkdir(parents=True, exist_ok=True)
    try:
        with Broker(home / "broker") as broker:
            rounds = Rounds(broker, home, done, options.harms, options.events)
            while done.harms < options.harms:
                found = rounds.run(min(options.per_round, options.harms - done.harms))
                done.rounds.append(found)
                save(state, done)
                print(f"{found}", flush=True)
    except KeyboardInterrupt:
        print(f"stopped after {done.harms} harms; run it again to go on", flush=True)
        return 130
    except RuntimeError as error:
        print(f"FAILED: {error}\nits topics, logs and tables are in {home}", flush=True)
        return 1
    print(table(done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
