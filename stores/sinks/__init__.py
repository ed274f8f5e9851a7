"""Read stores: where row changes become rows of tables, each exactly once.

`open_sink` opens one, `Sink` is what it does. What a sink of your own is made of stands here too:
`Reduction` folds records into row changes, `Schema` is the tables that they are for.
"""

from stores.sinks._replacement import fold_replacement
from stores.sinks.by_url import KINDS, delta_folder, is_own, needs_spark, open_sink
from stores.sinks.columns import read as yielded
from stores.sinks.dead_limit import DAY, DeadCount, DeadLimit, StoredDead, keep_from
from stores.sinks.decoding import Mark, Stream
from stores.sinks.errors import NotYet, StoreError
from stores.sinks.limits import StoreLimits
from stores.sinks.records import (
    Applied,
    Batch,
    DeadRecord,
    OnDead,
    OutputRecord,
    Position,
    check_at,
    check_batch,
)
from stores.sinks.reduction import Reduction, StoredProgress
from stores.sinks.row_changes import TableChanges
from stores.sinks.schema import Schema, TableState
from stores.sinks.shadows import (
    OLD,
    check_caught_up,
    check_live,
    checked_shadow,
    name_bytes,
    no_such_table,
    not_caught_up,
)
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
    "Mark",
    "NotYet",
    "OnDead",
    "OutputRecord",
    "Position",
    "Reduction",
    "Schema",
    "Sink",
    "StoreError",
    "StoreLimits",
    "StoredDead",
    "StoredProgress",
    "Stream",
    "TableChanges",
    "TableState",
    "check_at",
    "check_batch",
    "check_caught_up",
    "check_live",
    "checked_shadow",
    "delta_folder",
    "fold_replacement",
    "is_own",
    "keep_from",
    "name_bytes",
    "needs_spark",
    "no_such_table",
    "not_caught_up",
    "open_sink",
    "yielded",
]
