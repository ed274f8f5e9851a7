"""Where the state of views is kept.

`stores.view_state.contract` is what a store of your own has to pass.
"""

from stores.view_state.by_url import open_store
from stores.view_state.memory import MemoryStore
from stores.view_state.table import (
    Store,
    TableBusy,
    TableError,
    TableFenced,
    TableFull,
    TableUnavailable,
    ViewTable,
)
from topology.model.partition_table import Row

__all__ = [
    "MemoryStore",
    "Row",
    "Store",
    "TableBusy",
    "TableError",
    "TableFenced",
    "TableFull",
    "TableUnavailable",
    "ViewTable",
    "open_store",
]
