"""Read stores by URL."""

from collections.abc import Iterable
from pathlib import Path

from stores.db.urls import UrlError, read_url, require, without_password
from stores.sinks.errors import StoreError
from stores.sinks.sink import DeclaredTable, Sink
from topology.model.closest import closest

KINDS = (
    "sqlite:///FILE, postgresql://USER:PASSWORD@HOST:PORT/DATABASE, delta:///FOLDER, or @FILE for "
    "a file that one of these is in"
)

_SCHEMES = ("sqlite", "postgresql", "delta")
_SQLITE = "sqlite:///"
_DELTA = "delta:"


def open_sink(url: str, tables: Iterable[DeclaredTable] = (), shadow: str | None = None) -> Sink:
    """Open the read store at `url` for writing, and make the declared tables.

    `sqlite:///read.db` is a file in the working folder, `sqlite:////data/read.db` one by its
    full path; so are the folders of `delta:///`, and `delta:s3a://bucket/folder` is one on a file
    system that Spark knows. What follows a `?` of `postgresql://…` goes to the driver.
    shadow: the shadow tables to write, None for the live ones. Raises StoreError for a URL of no
    known store, and where the store cannot be opened.
    """
    try:
        url = read_url(url)
    except UrlError as error:
        raise StoreError(str(error)) from None
    path = url.removeprefix(_SQLITE)
    if path != url and path not in ("", ":memory:"):
        from stores.sinks.sql.sqlite import SqliteSink

        return SqliteSink(Path(path), tables, shadow)
    if url.startswith(("postgresql://", "postgres://")):
        require("read store", url, "psycopg", "postgres", StoreError)
        from stores.sinks.sql.postgres import PostgresSink

        return PostgresSink(url, tables, shadow)
    if needs_spark(url):
        require("read store", url, "pyspark", "spark", StoreError)
        from stores.sinks.delta.sink import DeltaSink

        return DeltaSink(delta_folder(url), tables, shadow)
    kind = closest(url.partition(":")[0], _SCHEMES)
    raise StoreError(
        f"read store {without_password(url)!r} is of no known kind{kind}; write {KINDS}"
    )


def needs_spark(url: str) -> bool:
    """Whether the store is written by Spark, so that a session with Delta Lake has to be there."""
    return url.startswith(_DELTA) and delta_folder(url) not in ("", "/")


def delta_folder(url: str) -> str:
    """The folder of `delta:///relative`, `delta:////absolute` or `delta:SCHEME://…`."""
    rest = url.removeprefix(_DELTA)
    return rest.removeprefix("///") if rest.startswith("///") else "" if rest[:1] == "/" else rest
