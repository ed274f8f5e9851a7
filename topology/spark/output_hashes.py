"""What a view's output topic says of each stream, as one hash per stream."""

from collections.abc import Iterator

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame

from topology.engine.output.output_chain import START, OutputChain, chained
from topology.view_rebuild import limit_of

_SCHEMA = "of_view string, chain binary"


def hashes(frame: DataFrame) -> dict[str, bytes]:
    """Stream of the view → the hash of its outputs, up to where the view was.

    frame: of the view's progress and its output topic, as `rebuild.cogroup` makes it. A stream
    that the workers made anew themselves is left out, as its outputs are of several makings.
    """
    found = frame.select("stream", "view", "of_view", "row", "value").mapInArrow(_chains, _SCHEMA)
    return {stream: bytes(chain) for stream, chain in found.collect()}


def _chains(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    lasts: dict[str, int] = {}
    made: dict[str, OutputChain] = {}
    current: str | None = None
    for batch in batches:
        names = ("stream", "view", "of_view", "row", "value")
        for stream, view, of_view, row, value in zip(
            *(batch.column(name).to_pylist() for name in names), strict=True
        ):
            if stream != current:
                yield _batch(made)
                current, lasts, made = stream, {}, {}
            if view:
                limit = limit_of(row)
                if not limit.epoch:
                    lasts[of_view] = limit.last
                continue
            body = orjson.loads(value or b"{}")
            known, sequence = body.get("stream"), body.get("sequence")
            chain = made.get(known, START)
            # At least once, an output may be there twice.
            if known in lasts and chain.last < sequence <= lasts[known]:
                made[known] = chained(chain, sequence, value)
    yield _batch(made)


def _batch(made: dict[str, OutputChain]) -> pa.RecordBatch:
    arrays = [
        pa.array(list(made), pa.string()),
        pa.array([chain.hash for chain in made.values()], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["of_view", "chain"])
