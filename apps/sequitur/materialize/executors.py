"""Parts of a batch on Spark's executors: each task folds the records of its partitions."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from stores.sinks.distributed import Fold, FoldedPart, records_of

_ROWS = pa.schema([("part", pa.binary()), ("value", pa.binary())])


def fold_on_executors(frame: DataFrame) -> Callable[[Fold], list[FoldedPart]]:
    """What runs a fold on each part of a batch.

    A task reads whole partitions of the topics, or what Spark's source was told to let it read:
    the sink sees that a partition is in one part.

    Args:
        frame: the batch, as Spark's Kafka source has made it.
    """

    def run(fold: Fold) -> list[FoldedPart]:
        def folded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            records = [record for batch in batches for record in records_of(batch)]
            if records:
                columns = map(list, zip(*fold(records).rows(), strict=True))
                yield pa.RecordBatch.from_arrays(
                    [pa.array(column, pa.binary()) for column in columns], schema=_ROWS
                )

        found = frame.mapInArrow(folded, "part binary, value binary").toArrow()
        return FoldedPart.parsed(zip(*found.to_pydict().values(), strict=True))

    return run
