"""Batches that are folded where their records are, by several processes at once.

The sink says how records are folded, whoever runs the batch runs that for each part of it, and the
sink then commits what came of all parts at one stroke. This is the quick way of large batches. What
is not plain is left to `Sink.apply`, which knows what to do with everything: parts that need new
columns, values that the store refuses, another writer that came between.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

import orjson

from stores.sinks.records import Applied, Batch, DeadRecord, OnDead, OutputRecord, Position

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Row = tuple[bytes, bytes | None]


class NotDistributed(Exception):
    """A batch that has to be applied by `Sink.apply`; nothing of it is. The text is the reason."""


class TasksFailed(NotDistributed):
    """The tasks that fold failed, as they would again. The text is what Spark said."""


class StagedWrite(NamedTuple):
    """Rows that wait in a table of their own to be written.

    Attributes:
        stage: the table they are in.
        table: the table they are for.
        key: the columns of its primary key.
        columns: the columns to set; None where the rows are to go.
    """

    stage: str
    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...] | None


@dataclass(slots=True)
class FoldedPart:
    """What a part of a batch came to.

    Attributes:
        refused: why the part cannot be applied so, None if it can; then the rest holds.
        writes: to be made, in order.
        positions: of the partitions that are in the part, behind it.
        applied: what became of its records.
        dead: those that could not be applied.
    """

    refused: str | None = None
    writes: list[StagedWrite] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)
    applied: Applied = field(default_factory=Applied)
    dead: list[DeadRecord] = field(default_factory=list)

    def rows(self) -> Iterator[Row]:
        """The part as rows that go from one process to another: itself, then its dead records."""
        positions, applied = list(map(asdict, self.positions)), asdict(self.applied)
        writes = list(map(tuple, self.writes))
        yield orjson.dumps({"part": (self.refused, writes, positions, applied)}), None
        for dead in self.dead:
            yield orjson.dumps({"dead": dead[:4]}), dead.value

    @classmethod
    def parsed(cls, rows: Iterable[Row]) -> list[Self]:
        """The parts that these rows, one part's after the other's, are of."""
        parts: list[Self] = []
        for text, value in rows:
            row = orjson.loads(text)
            if "dead" in row:
                topic, partition, offset, reason = row["dead"]
                parts[-1].dead.append(DeadRecord(topic, partition, offset, reason, value))
                continue
            refused, staged, positions, applied = row["part"]
            writes = [
                StagedWrite(stage, table, tuple(key), None if sets is None else tuple(sets))
                for stage, table, key, sets in staged
            ]
            parts.append(
                cls(refused, writes, [Position(**each) for each in positions], Applied(**applied))
            )
        return parts


Fold = Callable[[Iterable[OutputRecord]], FoldedPart]
"""What folds a part; it goes to other processes, so it can be pickled."""


def records_of(batch: "pa.RecordBatch | pa.Table") -> Iterable[OutputRecord]:
    """Return the records that Arrow columns hold.

    Args:
        batch: with the columns topic, partition, offset and value.
    """
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset", "value"))
    return zip(*columns, strict=True)


@runtime_checkable
class DistributedSink(Protocol):
    """A `Sink` that takes batches which are folded elsewhere."""

    def apply_distributed(
        self,
        run: Callable[[Fold], Iterable[FoldedPart]],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        """Apply a batch as `Sink.apply` does.

        Args:
            run: folds each part of the batch, wherever that is, and returns what came of them. All
                records of a partition are in one part.
            batch: see `Sink.apply`.
            on_dead: see `Sink.apply`.

        Returns:
            What became of the records.

        Raises:
            NotDistributed: the batch is to be applied by `Sink.apply`; nothing has changed.
            StoreError: as `Sink.apply`.
        """
        ...


@runtime_checkable
class FrameSink(Protocol):
    """A `Sink` that Spark itself writes, batches of which need not come to the driver."""

    def apply_frame(
        self, frame: "DataFrame", batch: Batch | None = None, on_dead: OnDead | None = None
    ) -> Applied:
        """Apply a batch as `Sink.apply` does.

        Args:
            frame: the records: topic, partition, offset, value. All of a partition are in one task.
            batch: see `Sink.apply`.
            on_dead: see `Sink.apply`.

        Returns:
            What became of the records.

        Raises:
            NotDistributed: the batch is to be applied by `Sink.apply`; nothing has changed.
            StoreError: as `Sink.apply`.
        """
        ...
