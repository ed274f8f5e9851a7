"""The protocol of a read-store sink: row changes become rows of tables, each exactly once.

A sink takes the records of output topics in batches. In the one database transaction that writes a
batch's rows it also keeps the next offset of every partition, the last applied sequence of every
stream of every view, the records that could not be applied, and the batch's own number. So it
ignores what it already has, whatever is delivered again: a batch after a crash, everything after a
checkpoint was lost, a record that its producer wrote twice.

**Shadow tables** are a second set of tables in the same store, beside the live ones that people
read, with their own notes of all that. A view is rebuilt into shadow tables, which then replace the
live ones at one stroke. A set has a name, its `shadow`.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from stores.sinks.dead_limit import DeadCount, DeadLimit, Removal, StoredDead
from stores.sinks.records import Applied, Batch, OnDead, OutputRecord, Position
from topology.model.column_types import ColumnType


class DeclaredTable(Protocol):
    """What a sink has to know of a table beforehand; `topology.Table` is one.

    Attributes:
        name: of the table.
        key: column → type of the primary key, in its order.
        columns: column → type of the others.
    """

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> Mapping[str, ColumnType]: ...
    @property
    def columns(self) -> Mapping[str, ColumnType]: ...


class Sink(Protocol):
    """A read store that is being written to. Every method raises StoreError.

    Attributes:
        keep_dead: how many dead records are kept; the oldest ones go first.
    """

    keep_dead: DeadLimit

    def apply(
        self,
        records: Iterable[OutputRecord],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        """Apply records in one transaction; when it raises, nothing has changed.

        A store without transactions over several tables (Delta Lake) is left half-way when it
        raises. It notes how far each table is, and comes out right when the records are applied
        again, in whatever batches.

        A row that several streams write is as the last record of its partition left it. Streams of
        different partitions have no order between them, so one stream should write a row.

        Args:
            records: in any order; they are taken by (topic, partition, offset). Of each partition
                they are all that is committed from some offset up to another one.
            batch: which batch of which query it is; None if nobody counts.
            on_dead: is called with the records that cannot be applied, if there are any, before
                anything is committed: with each of them at least once. What it raises ends the
                batch.

        Returns:
            What became of the records.

        Raises:
            StoreError: the store cannot be written, batches are missing before this one, or the
                records cannot be those that the store knows.
        """
        ...

    def last_batch(self, query: str) -> int | None:
        """Return the number of the last batch recorded for a query, None if there is none.

        Args:
            query: the query's id.
        """
        ...

    def progress(self) -> list[Position]:
        """How far every partition is, by topic and partition."""
        ...

    def seek(self, positions: Iterable[Position]) -> None:
        """Go on at these positions; all that is known of partitions of their topics is forgotten.

        For shadow tables that were filled from elsewhere, and follow their output topics from
        there.

        Args:
            positions: of partitions, which may have no records yet.
        """
        ...

    def replace_streams(self, records: Iterable[OutputRecord], at: Iterable[Position]) -> Applied:
        """Apply records whatever the store has of their streams, at one stroke.

        For streams that are made anew. The positions stay as they are.

        Args:
            records: the row changes of whole streams.
            at: the positions of the output topics that the records take in.

        Returns:
            What became of the records.

        Raises:
            NotYet: the store is not at all of these positions; nothing is changed.
            StoreError: a record cannot be applied; nothing is changed.
        """
        ...

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """The rows of a table in key order, as of one moment.

        Text is ordered by its code points.

        Args:
            table: by the name that views give it.

        Yields:
            The columns of the key, then the others that are not null.

        Raises:
            NoSuchTable: there is no such table.
        """
        ...

    def count(self, table: str) -> int:
        """Return how many rows a table has.

        Args:
            table: by the name that views give it.

        Raises:
            NoSuchTable: there is no such table.
        """
        ...

    def shadows(self) -> list[str]:
        """The names of the sets of shadow tables, `old` included."""
        ...

    def switch(self, shadow: str, topics: Iterable[str]) -> None:
        """Let shadow tables replace the live ones, in one transaction where the store has them.

        Called on a live sink, while the shadow's own writer is at rest; the live one may go on. The
        shadow tables get the live names, and the live tables of those names are kept as the shadow
        `old`; other live tables stay. The shadow is gone afterwards.

        What streams the shadow has, and what it could not apply, is taken over. The live positions
        stay as they are, and the records between them and the shadow's come as duplicates. If a
        stream's epoch is lower in the shadow, the stream is as far in the live epoch as the
        shadow's rows are.

        Args:
            shadow: the name of the shadow tables.
            topics: all output topics that the shadow was filled with.

        Raises:
            NotYet: the shadow is behind the live tables, in a partition of the topics or in a
                stream of them; nothing is changed.
            StoreError: there is no such shadow, or it has records of other topics.
        """
        ...

    def drop(self, shadow: str) -> None:
        """Delete shadow tables and their notes; a shadow that is not there is no error.

        Args:
            shadow: the name of the shadow tables.
        """
        ...

    def dead_counts(self) -> list[DeadCount]:
        """How many records of each partition are dead and kept, and how many were removed."""
        ...

    def last_dead(self, limit: int) -> list[StoredDead]:
        """Return the dead records that were put aside last, the newest first.

        Args:
            limit: the most to return.
        """
        ...

    def remove_dead(
        self, topic: str | None = None, before: int | None = None, *, dry_run: bool = False,
        by: str = "", why: str = "",
    ) -> int:  # fmt: skip
        """Remove dead records. That they were dead stays known and counted.

        Args:
            topic: only those of this topic; None for any.
            before: only those put aside before this time (seconds since 1970); None for any.
            dry_run: only count them.
            by: who has them removed, for the record.
            why: the reason, for the record.

        Returns:
            How many they are.
        """
        ...

    def removals(self, limit: int) -> list[Removal]:
        """Return who had dead records removed, and why; the last removal first.

        Args:
            limit: the most to return.
        """
        ...

    def close(self) -> None:
        """Let go of the store."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
