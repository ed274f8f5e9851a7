"""View-state tables: where a view's rows of one partition live, as a sorted map of bytes.

The changelog topic is the truth; a table is this worker's checkpoint of it, and says with `offset`
how far it is. So a table may be lost, or be set back to an earlier write: it is caught up from the
changelog. It must never be between two writes, nor hold rows that its offset does not account for.
"""

from typing import Protocol

from topology.model.partition_table import PartitionTable


class TableError(RuntimeError):
    """A table cannot be read or written; what it held can be rebuilt from the changelog."""


class TableUnavailable(TableError):
    """The table cannot be used for now; what it holds is right, up to its offset.

    Its server does not answer, say, or has lost the last writes. Open or claim it anew.
    """


class TableFull(TableUnavailable):
    """There is no room to write."""


class TableBusy(TableUnavailable):
    """The table takes no write at the moment; nothing of it was written. Write it again soon."""


class TableFenced(TableError):
    """Another worker has claimed the table: its partition has moved, this handle is of the past."""


class ViewTable(PartitionTable, Protocol):
    """The rows of one view in one partition, with what a worker needs to own them.

    One thread uses a table at a time, not always the same one.

    Raises:
        TableError: from every method, where the table cannot be read or written.
        TableBusy: from `write`, at once, where the backend would have to wait for its disk.
        TableFenced: from every method, where another worker has claimed the table.
    """

    @property
    def name(self) -> str:
        """Where the table is, for messages; without passwords."""
        ...

    @property
    def offset(self) -> int | None:
        """The changelog offset that comes next, None for a table that nothing is known of."""
        ...

    def claim(self) -> None:
        """Become the table's only writer, and see what an earlier one has left.

        A worker calls it when it has got the partition, before the first write. Where workers share
        a server, every other handle of the table raises TableFenced from then on.
        """
        ...

    def clear(self) -> None:
        """Delete everything and start empty, with `offset` None."""
        ...

    def close(self) -> None:
        """Let go of the table; what was written is kept as far as the backend keeps it."""
        ...


class Store(Protocol):
    """A place for the tables of all views and partitions of one consumer group.

    Different tables of it may be used by different threads at the same time.
    """

    def table(self, view: str, partition: int) -> ViewTable:
        """Open a table, and make it if it is not there.

        Args:
            view: the view's name.
            partition: the partition of the view's input.

        Raises:
            TableError: the table cannot be opened.
            BlockingIOError: another process has it open, and the backend can have only one.
        """
        ...

    def close(self) -> None:
        """Let go of the place; its tables are closed before."""
        ...
