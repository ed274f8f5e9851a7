"""Write to a table that may have no room for now, without standing on its disk."""

import asyncio
import time
from collections.abc import Sequence

from stores.view_state import TableBusy, TableFull
from topology.model.partition_table import PartitionTable, Row

FIRST, LONGEST = 0.001, 0.25
"""Seconds before a write is tried again: at first, and at most; they double."""
PATIENCE = 10.0
"""Seconds after which a disk that takes nothing counts as full."""


async def write(table: PartitionTable, rows: Sequence[Row], offset: int | None) -> None:
    """`table.write`, again and again while the table is busy.

    Writes of a table must not overtake each other: wait for one before the next. Raises TableFull
    when it was busy for PATIENCE, and what the table raises.
    """
    delay, until = FIRST, time.monotonic() + PATIENCE
    while True:
        try:
            table.write(rows, offset)
            return
        except TableBusy as error:
            if time.monotonic() > until:
                raise TableFull(
                    f"{error} for {PATIENCE:.0f} s; make room on the disk, or see why it is slow: "
                    "it goes on by itself"
                ) from error
        await asyncio.sleep(delay)
        delay = min(2 * delay, LONGEST)
