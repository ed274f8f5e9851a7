"""What SQL databases say and do differently, as far as a read store needs it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from stores.sinks.columns import Kind
from stores.sinks.decoding import Mark, Stream
from stores.sinks.limits import StoreLimits
from stores.sinks.schema import TableState


class Database(Protocol):
    """One connection. Names are given as they are, and quoted here.

    types: of columns, by kind; see `sql_type`. limits: of what it takes. integer, blob: the types
    of the sink's own columns. table_end: what a table is made with that has its rows by primary
    key.
    """

    types: Mapping[Kind, str]
    limits: StoreLimits
    integer: str
    blob: str
    table_end: str

    def errors(self) -> AbstractContextManager[None]:
        """Make a StoreError of what the database says; of what it says of a value, DataRefused."""
        ...

    def transaction(
        self, shadow: str | None, *, alone: bool = False
    ) -> AbstractContextManager[None]:
        """All or nothing. One at a time writes a shadow (None: the live tables).

        alone: nobody else writes any shadow.
        """
        ...

    def layout(self) -> int | None:
        """The number of the layout of the sink's own tables, None where there are none."""
        ...

    def set_layout(self, number: int) -> None:
        """Note the layout."""
        ...

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement, whose parameters are marked `?`, and return its rows."""
        ...

    def run(self, sql: str) -> None:
        """Run a statement without parameters and rows; any text may be quoted in it."""
        ...

    def define(self, sql: str) -> None:
        """Run a statement that makes a table or a column; see `run`.

        Raises DataRefused where there cannot be such a one, be it only for its name.
        """
        ...

    def tables(self) -> tuple[list[TableState], list[str]]:
        """(tables, names of other things), without those whose names begin with `_`."""
        ...

    def read_marks(self, table: str, streams: Iterable[Stream]) -> dict[Stream, Mark]:
        """How far streams are by the table `_progress`, which may have another name."""
        ...

    def upsert(
        self, table: str, key: Sequence[str], columns: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        """Insert rows, or set the columns of those that are there; no key comes twice.

        A table's rules hold for the row as it is then. A database looks at what is to be inserted
        first, which therefore has what the row has in columns that must not be null.
        """
        ...

    def delete(self, table: str, key: Sequence[str], keys: list[tuple[Any, ...]]) -> None:
        """Delete rows; those that are not there are no error."""
        ...

    def order_by(self, column: str, kind: Kind) -> str:
        """What orders rows by a column, the same in every database."""
        ...

    def stream_rows(self, sql: str) -> AbstractContextManager[Iterable[tuple[Any, ...]]]:
        """The rows of a query as of one moment; they may be many."""
        ...

    def encoder(self, kind: Kind) -> Callable[[Any], Any] | None:
        """What makes a fitted value one that the driver takes; None where it takes it as it is."""
        ...

    def decoded(self, value: Any, kind: Kind) -> Any:
        """A value that was read, as a handler yielded it."""
        ...

    def note_kinds(self, table: str, columns: Mapping[str, Kind]) -> None:
        """Note the kinds of new columns that their types do not say."""
        ...

    def swap(self, table: str, kept: str | None, new: str) -> None:
        """Rename the table `new` to `table`, whose old one becomes `kept` if there is one.

        Whoever may read the old one may read the new one.
        """
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


TARGET = "_row"
"""What an upsert calls its table, since one that is called `excluded` would hide the new row."""


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def as_they_are(
    table: str, key: Sequence[str], values: Sequence[str], columns: Iterable[str]
) -> list[str]:
    """What a row that is there, whose key is these values, has in columns; null of a new row."""
    same = " AND ".join(f"o.{quoted(k)} = {value}" for k, value in zip(key, values, strict=True))
    return [f"(SELECT o.{quoted(c)} FROM {quoted(table)} AS o WHERE {same})" for c in columns]


def listed(names: Iterable[str]) -> str:
    """Names as SQL takes them, with commas."""
    return ", ".join(map(quoted, names))
