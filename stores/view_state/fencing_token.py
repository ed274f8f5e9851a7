"""The fencing token of a table on a server: which worker wrote it last, and which write that was.

It is stored with the rows. Who reads or writes a table first compares it with the one that he left:
another worker's means that the partition has moved, an older one of his own, or none, that the
server has lost writes, as a server may that was killed or failed over. Either way nothing may be
built on what is in the table now.
"""

from dataclasses import dataclass, field
from uuid import uuid4

from stores.view_state.table import TableError, TableFenced, TableUnavailable


@dataclass(frozen=True, slots=True)
class FencingToken:
    """worker: a number that each claim draws anew. writes: since that claim."""

    worker: str = field(default_factory=lambda: uuid4().hex)
    writes: int = 0

    def __str__(self) -> str:
        return f"{self.worker}:{self.writes}"

    def next(self) -> "FencingToken":
        """The token of the next write."""
        return FencingToken(self.worker, self.writes + 1)

    def mismatch(self, table: str, found: str | None) -> TableError:
        """What is wrong with a table that should have this token and has another one."""
        if found is None or found.startswith(f"{self.worker}:"):
            return TableUnavailable(
                f"the table {table} has lost its last writes: its server was killed, failed over "
                "or evicts. What is missing is caught up from the changelog"
            )
        return TableFenced(
            f"the table {table} was claimed by another worker, which has the partition now. If no "
            "partition has moved, two groups of workers share a name on this server: give one "
            "another SEQUITUR_GROUP or database"
        )


def unclaimed(table: str) -> TableFenced:
    """For a write through a handle that only reads."""
    return TableFenced(f"the table {table} is not claimed: call claim() before writing")
