"""Read stores: where row changes become rows of tables, each exactly once."""

from stores.sinks.by_url import KINDS, delta_folder, needs_spark, open_sink
from stores.sinks.dead_limit import DAY, DeadCount, DeadLimit, StoredDead, keep_from
from stores.sinks.errors import NotYet, StoreError
from stores.sinks.records import (
    Applied,
    Batch,
    DeadRecord,
    OnDead,
    OutputRecord,
    Position,
    check_batch,
)
from stores.sinks.shadows import OLD
from stores.sinks.sink import DeclaredTable, Sink

__all__ = [
    "DAY",
    "KINDS",
    "OLD",
    "Applied",
    "Batch",
    "DeadCount",
    "DeadLimit",
    "DeadRecord",
    "DeclaredTable",
    "NotYet",
    "OnDead",
    "OutputRecord",
    "Position",
    "Sink",
    "StoreError",
    "StoredDead",
    "check_batch",
    "delta_folder",
    "keep_from",
    "needs_spark",
    "open_sink",
]
