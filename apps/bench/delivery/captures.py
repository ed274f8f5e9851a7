"""Capture: transactions per second with it, against the same ones without."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Barrier, Thread

from sqlalchemy import Connection, Engine, text

from apps.bench.delivery.stage import CONTENT, Stage, new_log
from stores.outbox import Outbox

STREAMS = 100
"""Of each writer."""


@dataclass(frozen=True, slots=True)
class Captures:
    """Transactions per second of all writers together."""

    writers: int
    without: float
    captured: float


def captures(stage: Stage, writers: int, seconds: float) -> Captures:
    """Measure both in turns of a quarter of the time, so that both meet the same machine."""
    url = stage.database("captures")
    engine, log = new_log(url, pool_size=writers)
    log.create(engine)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE produced (writer INTEGER, n BIGINT)"))
    outbox, content = Outbox(log), b"x" * CONTENT

    def plain(connection: Connection, writer: int, n: int) -> None:
        connection.execute(_INSERT, {"writer": writer, "n": n})

    def capturing(connection: Connection, writer: int, n: int) -> None:
        plain(connection, writer, n)
        stream = f"stream-{writer}-{n % STREAMS}"
        outbox.capture(connection, "captures", stream, "Made", content)

    rates: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(4):
        captured = turn % 2 == 1
        work = capturing if captured else plain
        rates[captured].append(_rate(engine, writers, seconds / 4, work))
    engine.dispose()
    return Captures(writers, sum(rates[False]) / 2, sum(rates[True]) / 2)


_INSERT = text("INSERT INTO produced VALUES (:writer, :n)")
Work = Callable[[Connection, int, int], None]


def _rate(engine: Engine, writers: int, seconds: float, work: Work) -> float:
    done = [0] * writers
    failed: list[BaseException] = []
    ready = Barrier(writers + 1)

    def write(writer: int) -> None:
        try:
            with engine.connect() as connection:
                ready.wait()
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    with connection.begin():
                        work(connection, writer, done[writer])
                    done[writer] += 1
        except BaseException as error:
            failed.append(error)
            ready.abort()

    threads = [Thread(target=write, args=(writer,)) for writer in range(writers)]
    for thread in threads:
        thread.start()
    ready.wait()
    began = time.monotonic()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return sum(done) / (time.monotonic() - began)
