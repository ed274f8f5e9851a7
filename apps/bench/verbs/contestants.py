"""Who makes the tables, and with how much grace."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from bench.peers import kafka_streams, quix
from bench.peers.peer import nothing
from bench.programs import worker
from bench.verbs.tables import TABLES

HOUR = 3_600_000
"""Milliseconds."""
IDLE = 60_000
"""Milliseconds for which Kafka Streams waits for the other side of a join before it goes on.

With less, on a busy machine, the weather gets ahead of the departures, which come by a re-key.
"""


@dataclass(frozen=True, slots=True)
class Contestant:
    """title: for the reader. tables: that it makes. environment: of its program, besides. cores:
    how many it can use, by threads or processes."""

    name: str
    title: str
    command: Callable[[], list[str]]
    tables: tuple[str, ...] = TABLES
    environment: Mapping[str, str] = field(default_factory=dict)
    missing: Callable[[], str | None] = nothing
    cores: int = 1


SEQUITUR = Contestant("sequitur", "Sequitur", lambda: worker("bench.topologies.verbs"))


def _kafka_streams(grace: int, versioned: bool) -> Contestant:
    table = "versioned" if versioned else "plain"
    told = {"GRACE": str(grace * HOUR), "VERSIONED": str(versioned).lower(), "IDLE": str(IDLE)}
    return Contestant(
        f"kafka-streams {grace} h {table}",
        f"Kafka Streams {kafka_streams.VERSION}, grace {grace} h, {table} table",
        kafka_streams.VERBS.command,
        environment=told,
        missing=kafka_streams.VERBS.missing,
    )


def _quix(grace: int) -> Contestant:
    return Contestant(
        f"quix {grace} h",
        f"Quix Streams {quix.VERSION}, grace {grace} h",
        lambda: quix.command(quix.VERBS),
        environment={"GRACE": str(grace * HOUR)},
        missing=quix.missing,
    )


ALL = (
    SEQUITUR,
    _kafka_streams(0, versioned=False),
    *(_kafka_streams(grace, versioned=True) for grace in (0, 6, 24)),
    *map(_quix, (0, 6, 24)),
)
COSTED = (SEQUITUR, ALL[1], ALL[4], ALL[-1])
"""Those of which it is measured what a table costs: no grace, and most."""
SEQUITUR_2 = replace(
    SEQUITUR,
    name="sequitur, two",
    title="Sequitur, `--processes 2`",
    command=lambda: [*SEQUITUR.command(), "--processes", "2"],
    cores=2,
)
KAFKA_STREAMS_2 = replace(
    COSTED[2],
    name=f"{COSTED[2].name}, two",
    title=f"{COSTED[2].title}, two threads",
    environment={**COSTED[2].environment, "THREADS": "2"},
    cores=2,
)
ON_TWO = (SEQUITUR_2, KAFKA_STREAMS_2)
"""The same with two processes or threads; without grace, two threads had not ended after ten
minutes: transactions took longer than the 10 s that they may, again and again."""
CONTESTANTS = {contestant.name: contestant for contestant in (*ALL, *ON_TWO)}
