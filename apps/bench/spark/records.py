"""Output records to materialize: each upserts a row of its own, which a plain writer inserts."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from bench.workload import Message
from topology import Table

STREAMS = 5_000
TABLE = Table(
    "bench",
    key={"stream": str, "number": int},
    columns={"status": str, "amount": float, "note": str, "sent": float},
)
COLUMNS = (*TABLE.key, *TABLE.columns)
_NOTE = "x" * 60


def record(number: int, sent: float = 0.0, *, updates: bool = False) -> Message:
    """(key, value) of the `number`-th record.

    sent: when, in seconds since 1970. updates: half of the records are of rows that are there, and
    keys are random.
    """
    stream, sequence = number % STREAMS, number // STREAMS + 1
    if updates:
        new = sequence // 2
        number = new if sequence % 2 else random.Random(number).randrange(new)
        number = (number * STREAMS + stream) * 2_654_435_761 % 2**32
    return b"%d" % stream, (
        b'{"view":"bench","stream":"s%d","sequence":%d,"changes":[{"op":"upsert","table":"bench",'
        b'"key":{"stream":"s%d","number":%d},"values":{"status":"paid","amount":%d.5,'
        b'"note":"%s","sent":%r}}]}'
        % (stream, sequence, stream, number, number % 1000, _NOTE.encode(), sent)
    )


@dataclass(frozen=True)
class Records:
    """`count` records, as a workload that a topic is filled with; see `record`."""

    count: int
    updates: bool = False

    @property
    def messages(self) -> Iterator[Message]:
        return (record(number, updates=self.updates) for number in range(self.count))
