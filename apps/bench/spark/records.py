"""Output records to materialize: each upserts a row of its own, which a plain writer inserts."""

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


def record(number: int, sent: float = 0.0) -> Message:
    """(key, value) of the `number`-th record. sent: when, in seconds since 1970."""
    stream, sequence = number % STREAMS, number // STREAMS + 1
    return b"%d" % stream, (
        b'{"view":"bench","stream":"s%d","sequence":%d,"changes":[{"op":"upsert","table":"bench",'
        b'"key":{"stream":"s%d","number":%d},"values":{"status":"paid","amount":%d.5,'
        b'"note":"%s","sent":%r}}]}'
        % (stream, sequence, stream, number, number % 1000, _NOTE.encode(), sent)
    )


@dataclass(frozen=True)
class Records:
    """`count` records, as a workload that a topic is filled with."""

    count: int

    @property
    def messages(self) -> Iterator[Message]:
        return (record(number) for number in range(self.count))
