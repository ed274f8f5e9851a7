"""Read stores by URL: those of this package, and a user's own."""

from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from pathlib import Path

from stores.db.urls import UrlError, read_url, require, said, without_password
from stores.sinks.errors import StoreError
from stores.sinks.sink import DeclaredTable, Sink
from topology.model.closest import closest
from topology.model.dotted import load
from topology.model.errors import DeclarationError

KINDS = (
    "sqlite:///FILE, postgresql://USER:PASSWORD@HOST:PORT/DATABASE, delta:///FOLDER, "
    "module:function of your own, or @FILE for a file that one of these is in"
)
"""The URLs that `open_sink` takes, for help texts and errors."""
ENTRY_POINTS = "sequitur.sinks"
"""The group of entry points that are called for URLs of their scheme."""

OpenOwn = Callable[[str, Iterable[DeclaredTable], str | None], Sink]
"""(URL, declared tables, shadow) → a sink of a user's own."""

_SCHEMES = ("sqlite", "postgresql", "postgres", "delta")
_SQLITE = "sqlite:///"
_DELTA = "delta:"


def open_sink(url: str, tables: Iterable[DeclaredTable] = (), shadow: str | None = None) -> Sink:
    """Open a read store for writing, and make the declared tables.

    Args:
        url: `sqlite:///read.db`, a file in the working folder, or `sqlite:////data/read.db`, by its
            full path; `postgresql://…`, of which what follows a `?` goes to the driver;
            `delta:///folder`, `delta:////full/path`, or `delta:s3a://bucket/folder` on a file
            system that Spark knows; `module:function`, which is called with the URL, the tables and
            the shadow; `scheme://…`, for which a package has an entry point `scheme` in the group
            `sequitur.sinks`, called likewise; or `@FILE`, whose first line is one of these.
        tables: declared tables.
        shadow: the shadow tables to write, None for the live ones.

    Returns:
        The sink, to be closed.

    Raises:
        StoreError: the URL is of no known store, or the store cannot be opened.
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
    return _opened(_own(url), url, tables, shadow)


def is_own(url: str) -> bool:
    """Return whether a store is a user's own, by `module:function` or an entry point.

    Args:
        url: the store.
    """
    kind, colon, _ = url.partition(":")
    return bool(colon) and kind not in _SCHEMES


def needs_spark(url: str) -> bool:
    """Return whether Spark writes a store, and needs a session with Delta Lake.

    Args:
        url: the store.
    """
    return url.startswith(_DELTA) and delta_folder(url) not in ("", "/")


def delta_folder(url: str) -> str:
    """Return the folder of a Delta Lake URL.

    Args:
        url: `delta:///relative`, `delta:////absolute` or `delta:SCHEME://…`.
    """
    rest = url.removeprefix(_DELTA)
    return rest.removeprefix("///") if rest.startswith("///") else "" if rest[:1] == "/" else rest


def _own(url: str) -> OpenOwn:
    """What opens a store that is none of ours. Raises StoreError."""
    kind, _, rest = url.partition(":")
    close = closest(kind, _SCHEMES)
    try:
        if is_own(url) and rest and not rest.startswith("/"):
            opening: OpenOwn = load("read store", url.partition("?")[0], "a URL")
            return opening
        for entry in entry_points(group=ENTRY_POINTS, name=kind) if is_own(url) else ():
            opening = load("read store", entry.value, "a URL")
            return opening
    except DeclarationError as error:
        raise StoreError(f"{said(error, url)}{close}; write {KINDS}") from None
    raise StoreError(
        f"read store {without_password(url)!r} is of no known kind{close}; write {KINDS}"
    )


def _opened(
    opening: OpenOwn, url: str, tables: Iterable[DeclaredTable], shadow: str | None
) -> Sink:
    """Open a user's own store. Whatever is wrong with it is a StoreError."""
    try:
        sink = opening(url, tables, shadow)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(
            f"read store {without_password(url)!r}: opening it failed "
            f"({type(error).__name__}: {said(error, url)})"
        ) from error
    if not callable(getattr(sink, "apply", None)):
        raise StoreError(
            f"read store {without_password(url)!r}: what its function returned is no sink, but of "
            f"type {type(sink).__name__}; see stores.sinks.Sink"
        )
    return sink
