"""Read stores: where row changes become rows of tables, each exactly once."""

from stores.sinks.by_url import open_sink
from stores.sinks.sink import Applied, Batch, Position, Sink, StoreError

__all__ = [
    "Applied",
    "Batch",
    "Position",
    "Sink",
    "StoreError",
    "open_sink",
]
