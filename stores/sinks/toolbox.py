"""What a sink of your own is made of.

`Reduction` folds records into row changes, `Schema` is the tables that they are for; the rest are
the checks and refusals that all sinks have in common.
"""

from stores.sinks.columns import read as yielded
from stores.sinks.dead_limit import keep_from
from stores.sinks.decoding import Mark, Stream
from stores.sinks.limits import StoreLimits
from stores.sinks.records import check_at, check_batch, is_behind
from stores.sinks.reduction import Reduction
from stores.sinks.replacement import fold_replacement
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

__all__ = [
    "OLD",
    "Mark",
    "Reduction",
    "Schema",
    "StoreLimits",
    "Stream",
    "TableState",
    "check_at",
    "check_batch",
    "check_caught_up",
    "check_live",
    "checked_shadow",
    "fold_replacement",
    "is_behind",
    "keep_from",
    "name_bytes",
    "no_such_table",
    "not_caught_up",
    "yielded",
]
