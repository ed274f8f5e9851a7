"""How far a set of tables is in a SQL read store: what a reduction asks, and what a batch notes."""

import time
from collections.abc import Iterable, Mapping

from stores.sinks.decoding import Mark, Stream
from stores.sinks.records import Batch, Position
from stores.sinks.reduction import FEW, Reduction
from stores.sinks.shadows import shadow_name
from stores.sinks.sql.database import Database, quoted
from stores.sinks.sql.dead_rows import SqlDeadRecords


class SqlProgress:
    """The tables `_progress`, `_positions` and `_batches` of a set; a reduction's `StoredProgress`.

    Writes go into the caller's transaction.
    """

    at_once = FEW

    def __init__(self, database: Database, shadow: str | None) -> None:
        self._database = database
        self._dead = SqlDeadRecords(database, shadow)
        self._streams = shadow_name("_progress", shadow)
        self._positions = shadow_name("_positions", shadow)
        self._batches = shadow_name("_batches", shadow)

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        """See `StoredProgress.marks`."""
        return self._database.read_marks(self._streams, streams)

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        """See `StoredProgress.is_dead`."""
        return self._dead.has((topic, partition, offset))

    def forgetting(self, topic: str) -> str:
        """See `StoredProgress.forgetting`."""
        return f"DELETE FROM {quoted(self._positions)} WHERE topic = '{topic}'"

    def positions(self) -> dict[tuple[str, int], Position]:
        """(topic, partition) → how far it is applied, in that order."""
        sql = (
            'SELECT topic, "partition", next_offset, applied, duplicates, dead '
            f'FROM {quoted(self._positions)} ORDER BY topic, "partition"'
        )
        return {(row[0], row[1]): Position(*row) for row in self._database.query(sql)}

    def last_batch(self, query: str) -> int | None:
        """See `Sink.last_batch`."""
        sql = f'SELECT number FROM {quoted(self._batches)} WHERE "query" = ?'
        found = self._database.query(sql, [query])
        return int(found[0][0]) if found else None

    def save_streams(self, reduction: Reduction) -> None:
        """Note the sequences that streams are at."""
        rows = []
        for stream in sorted(reduction.moved):
            epoch, sequence = reduction.marks[stream]
            rows.append((*stream, sequence, epoch))
        key = ("topic", "view", "stream")
        self._database.upsert(self._streams, key, ("sequence", "epoch"), rows)

    def save_positions(self, positions: Iterable[Position]) -> None:
        """Note how far partitions are applied."""
        columns = ("next_offset", "applied", "duplicates", "dead")
        rows = [
            (p.topic, p.partition, p.next_offset, p.applied, p.duplicates, p.dead)
            for p in positions
        ]
        self._database.upsert(self._positions, ("topic", "partition"), columns, rows)

    def forget_topic(self, topic: str) -> None:
        """Forget the positions of a topic's partitions."""
        self._database.query(f"DELETE FROM {quoted(self._positions)} WHERE topic = ?", [topic])

    def save_batch(self, batch: Batch, records: int) -> None:
        """Note the last batch of a query. records: how many it had."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        row = (batch.query, batch.number, at, records)
        self._database.upsert(self._batches, ("query",), ("number", "at", "records"), [row])
