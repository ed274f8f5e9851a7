"""`scripts/soak sinks`: materializers killed between the steps of their batches, checked.

Seeded, bounded, and resumable, as `scripts/soak`: what is stopped goes on behind the last round
that passed. In a round a topic is filled while a materializer is killed (SIGKILL) at steps of the
sink and at any time, and loses its checkpoint now and then; then the tables have to be the fold of
the topic.
"""

import argparse
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkout.postgres import Postgres
from sequitur.cli.signals import interrupted_by
from sequitur.demo.kafka import Kafka
from sequitur.local.broker import Broker
from sequitur.local.home import HOME
from sequitur.local.process import tail
from soak.done import Done, Round, lasts, load, save, table
from soak.materializers import Materializer
from soak.views import PARTITIONS, TABLE, Views
from stores.sinks import open_sink
from stores.sinks.by_url import needs_spark

KINDS = ("sqlite", "postgresql", "delta")
_BATCH = ("--max-rows-per-trigger", "400")


def round_of(broker: str, home: Path, kind: str, seed: int, kills: int) -> Round:
    """One round; raises RuntimeError with what is wrong."""
    began = time.monotonic()
    folder = home / f"round-{seed}-{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    topic = f"soak-sinks-{seed}-{kind}-{int(time.time())}"
    Kafka(broker).create({topic: PARTITIONS})
    views, chance, what = Views(broker, topic), random.Random(f"{seed} {kind}"), Counter[str]()
    with _place(kind, folder) as url:
        materializer = Materializer(folder, broker, url, topic)
        try:
            for _ in range(kills):
                views.write(chance.randrange(10, 30))
                what[_harm(materializer, chance)] += 1
            views.write(5)
            materializer.start()
            materializer.catch_up()
            if (status := materializer.end(signal.SIGTERM)) != 0:
                # 1 if it could not apply a record: all that are written here can be.
                raise RuntimeError(f"it ended with {status}:\n{tail(materializer.log, 5)}")
            _check(url, views)
        except (RuntimeError, TimeoutError) as error:
            raise RuntimeError(f"seed {seed}, {kind}, after {dict(what)}: {error}") from error
        finally:
            materializer.kill()
    shutil.rmtree(folder, ignore_errors=True)
    return Round(seed, kind, views.committed, round(time.monotonic() - began), dict(what))


def _harm(materializer: Materializer, chance: random.Random) -> str:
    """Run it until it is killed at a step, or for a while."""
    if chance.random() < 0.2:
        materializer.lose_checkpoint()
        done = "checkpoint lost, "
    else:
        done = ""
    if chance.random() < 0.25:
        materializer.start(*_BATCH)
        time.sleep(chance.uniform(2, 20))
        materializer.end(signal.SIGKILL)
        return done + "killed at any time"
    cut = (
        chance.choice(materializer.steps),
        chance.choice(["before", "after"]),
        chance.randint(1, 6),
    )
    materializer.start(*_BATCH, cut=cut)
    try:
        materializer.catch_up()
    except RuntimeError:
        if materializer.ended() != -signal.SIGKILL:
            raise
        return f"{done}killed {cut[1]} {cut[0]}"
    materializer.end(signal.SIGKILL)  # there was less to do than the cut is at
    return done + "killed at rest"


def _check(url: str, views: Views) -> None:
    if needs_spark(url):
        from sequitur.spark.session import spark_session

        spark_session("soak", delta=True)
    with open_sink(url) as sink:
        if list(sink.rows(TABLE)) != views.board():
            raise RuntimeError("the table is not the fold of the topic")
        if sum(p.applied + p.duplicates for p in sink.progress()) != views.committed:
            raise RuntimeError(f"of {views.committed} records, {sink.progress()} are counted")


@contextmanager
def _place(kind: str, folder: Path) -> Iterator[str]:
    if kind == "postgresql":
        with Postgres() as server:
            yield server.url
    else:
        yield f"{kind}:///{folder}/store"


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/soak sinks", description=__doc__)
    parser.add_argument("--kills", type=int, default=120, help="in all")
    parser.add_argument("--per-round", type=int, default=8, help="of them in one round")
    parser.add_argument("--read-store", choices=[*KINDS, "all"], default="all", help="in turn")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--fresh", action="store_true", help="do not go on with an earlier run")
    options = parser.parse_args()

    interrupted_by(signal.SIGTERM)
    kinds = KINDS if options.read_store == "all" else (options.read_store,)
    home = HOME / "soak-sinks"
    state = home / "done.json"
    done = load(state, options.seed)
    if options.fresh or done is None or done.harms >= options.kills:
        shutil.rmtree(home, ignore_errors=True)
        done = Done(options.seed)
    home.mkdir(parents=True, exist_ok=True)
    try:
        with Broker(home / "broker") as broker:
            while done.harms < options.kills:
                kind = kinds[len(done.rounds) % len(kinds)]
                kills = min(options.per_round, options.kills - done.harms)
                done.rounds.append(round_of(broker.address, home, kind, done.next_seed, kills))
                save(state, done)
                left = done.seconds / done.harms * (options.kills - done.harms)
                print(f"{done.rounds[-1]}; about {lasts(left)} left", flush=True)
    except KeyboardInterrupt:
        print(f"stopped after {done.harms} kills; run it again to go on", flush=True)
        return 130
    except RuntimeError as error:
        print(f"FAILED: {error}\nits logs and tables are in {home}", flush=True)
        return 1
    print(table(done, KINDS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
