"""Read stores by URL."""

from collections.abc import Iterable
from pathlib import Path

from stores.sink import DeclaredTable, Sink, StoreError
from stores.urls import without_password

_SQLITE = "sqlite:///"


def open_sink(url: str, tables: Iterable[DeclaredTable] = ()) -> Sink:
    """Open the read store at `url` for writing, and make the declared tables.

    `sqlite:///read.db` is a file in the working folder, `sqlite:////data/read.db` one by its
    full path. Raises StoreError for a URL of no known store, and where the store cannot be opened.
    """
    path = url.removeprefix(_SQLITE)
    if path == url or not path or path == ":memory:":
        raise StoreError(
            f"read store {without_password(url)!r} is of no known kind; write {_SQLITE}FILE"
        )
    from stores.sqlite_sink import SqliteSink

    return SqliteSink(Path(path), tables)
