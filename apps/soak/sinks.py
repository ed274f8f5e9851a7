"""`scripts/soak sinks`: materializers killed between the steps of their batches, checked.

Seeded, bounded, and resumable, as `scripts/soak`: what is stopped goes on behind the last round
that passed. In a round a topic is filled while a materializer is killed (SIGKILL) at steps of the
sink and at any time, and loses its checkpoint now and then; then the tables have to be the fold of
the topic.
"""

import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from checkout.postgres import Postgres
from sequitur.demo.kafka import Kafka
from sequitur.local.broker import Broker
from sequitur.local.home import HOME
from sequitur.local.process import tail
from soak.done import Round
from soak.materializers import Materializer
from soak.rounds import Soaking
from soak.views import PARTITIONS, TABLE, Views
from stores.sinks import open_sink
from stores.sinks.by_url import needs_spark

KINDS = ("sqlite", "postgresql", "delta")
_BATCH = ("--max-rows-per-trigger", "400")


def run_round(broker: Broker, kind: str, folder: Path, seed: int, kills: int) -> Round:
    """One round; raises RuntimeError with what is wrong."""
    began = time.monotonic()
    topic = f"soak-sinks-{seed}-{kind}-{int(time.time())}"
    Kafka(broker.address).create({topic: PARTITIONS})
    views, chance = Views(broker.address, topic), random.Random(f"{seed} {kind}")
    what = Counter[str]()
    with _place(kind, folder) as url:
        materializer = Materializer(folder, broker.address, url, topic)
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
    return Round(seed, kind, views.committed, round(time.monotonic() - began), dict(what))


def _harm(materializer: Materializer, chance: random.Random) -> str:
    """Run it until it is killed at a step, or for a while."""
    materializer.on_executors = materializer.url.startswith("postgres") and chance.random() < 0.5
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


SOAKING = Soaking(
    "scripts/soak sinks",
    __doc__,
    KINDS,
    harms=120,
    per_round=8,
    things="messages",
    holds="nothing lost or repeated; every table is the fold of its topic",
    keeps=True,
    broker=True,
)


if __name__ == "__main__":
    sys.exit(SOAKING.main(None, HOME / "soak-sinks", run_round))
