"""Read stores: where row changes become rows of tables, each exactly once.

`open_sink` opens one, `Sink` is what it does. What a sink of your own is made of is in
`stores.sinks.toolbox`.
"""

from stores.sinks.by_url import open_sink
from stores.sinks.dead_limit import DeadCount, DeadLimit, Removal, StoredDead
from stores.sinks.errors import NotYet, StoreError
from stores.sinks.records import Applied, Batch, DeadRecord, OnDead, OutputRecord, Position
from stores.sinks.sink import DeclaredTable, Sink

__all__ = [
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
    "Removal",
    "Sink",
    "StoreError",
    "StoredDead",
    "open_sink",
]
