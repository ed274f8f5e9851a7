"""The replay log as a frame: executors read it by ranges of ids."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from stores.db.engines import open_engine
from stores.db.urls import existing, read_url
from stores.replay import CapturedMessage, FieldKind, Query, ReplayError, ReplayLog

_COLUMNS = (
    *(("id", "bigint"), ("site", "string"), ("topic", "string"), ("partition", "int")),
    *(("offset", "bigint"), ("timestamp", "bigint"), ("captured", "bigint"), ("origin", "string")),
    *(("stream", "string"), ("sequence", "bigint"), ("key", "binary"), ("value", "binary")),
    ("headers", "array<struct<key: string, value: binary>>"),
)
_ARROW = {
    "bigint": pa.int64(),
    "int": pa.int32(),
    "string": pa.string(),
    "double": pa.float64(),
    "binary": pa.binary(),
    _COLUMNS[-1][1]: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
_TYPES = {FieldKind.TEXT: "string", FieldKind.INTEGER: "bigint", FieldKind.NUMBER: "double"}
_PAGE = 2_000


def replay_log(
    spark: SparkSession,
    database: str,
    query: Mapping[str, Any] | Query | None = None,
    slices: int | None = None,
) -> DataFrame:
    """Read the messages of the replay log that a query finds; as many as there are now.

    Args:
        spark: the session. Its executors reach the database; an SQLite file is on their machine.
        database: the log's URL, or `@FILE`.
        query: as JSON, such as `{"topics": ["moves"], "where": [["delay", ">=", 60]]}`; None: all.
        slices: tasks that read; four a core unless given.

    Returns:
        Columns: id, site, topic, partition, offset, timestamp and captured (milliseconds since
        1970), origin, stream, sequence, key, value, headers, and `field_NAME` of each field. Rows
        have no order; ids ascend in the order of commits.

    Raises:
        ReplayError: it is no query, or asks for a field that is not there.
    """
    url = existing(read_url(database))
    engine = open_engine(url)
    try:
        log = ReplayLog(engine)
        asked = query if isinstance(query, Query) else Query.from_json(query or {})
        end, declared = log.end(), log.declared()
        through = end if asked.through is None else min(asked.through, end)
        log.count(replace(asked, after=through, through=through))  # it has no unknown field
        there = log.holes(asked)
    finally:
        engine.dispose()
    columns = [*_COLUMNS, *((f"field_{name}", _TYPES[kind]) for name, kind in declared.items())]
    schema = pa.schema([(name, _ARROW[of]) for name, of in columns])
    ids = max(0, through - asked.after)
    tasks = min(slices or 4 * spark.sparkContext.defaultParallelism, max(1, ids))

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine = open_engine(url)
        try:
            log = ReplayLog(engine)
            for number in (each for batch in numbers for each in batch.column(0).to_pylist()):
                low = asked.after + ids * number // tasks
                high = asked.after + ids * (number + 1) // tasks
                left: Query | None = replace(asked, after=low, through=high)
                while left is not None:
                    page = log.page(left, _PAGE)
                    rows = [_row(each, declared) for each in page.messages]
                    yield pa.RecordBatch.from_pylist(rows, schema=schema)
                    left = None if page.after is None else replace(left, after=page.after)
                if log.holes(asked) != there:
                    raise ReplayError("retention took a part while it was read: read again")
        finally:
            engine.dispose()

    types = ", ".join(f"`{name}` {of}" for name, of in columns)
    return spark.range(0, tasks, 1, tasks).mapInArrow(read, types)


def _row(message: CapturedMessage, declared: Mapping[str, FieldKind]) -> dict[str, Any]:
    row = {name: getattr(message, name, None) for name, _ in _COLUMNS}
    row["timestamp"] = message.time
    row["headers"] = [{"key": name, "value": value} for name, value in message.headers]
    for name, kind in declared.items():
        row[f"field_{name}"] = _of_kind(kind, message.metadata.get(name))
    return row


def _of_kind(kind: FieldKind, value: Any) -> Any:
    """What the column takes; the field may have had another kind once."""
    if kind is FieldKind.TEXT:
        return None if value is None else str(value)
    if isinstance(value, str) or value is None:
        return None
    return float(value) if kind is FieldKind.NUMBER else int(value)
