"""View-state stores by URL: what SEQUITUR_VIEW_STATE names."""

from collections.abc import Callable
from pathlib import Path

from stores.db.urls import UrlError, read_url, require, said, without_password
from stores.view_state.table import Store, TableError
from topology.model.closest import closest
from topology.model.dotted import load
from topology.model.errors import DeclarationError

KINDS = (
    "rocksdb, rocksdb:///FOLDER, files, files:///FOLDER, sqlite:///FILE, "
    "postgresql://USER@HOST/DATABASE, redis://HOST:PORT/NUMBER, rediss://…, redis+unix:///SOCKET, "
    "memory, module:function of your own, or @FILE for a file that one of these is in"
)
_SCHEMES = ("rocksdb", "files", "sqlite", "postgresql", "redis", "rediss", "redis+unix", "memory")

Opening = Callable[[str, str, Path], Store]
"""(URL, group, data folder) → a store of one's own."""


def open_store(url: str, group: str, datadir: Path | None = None) -> Store:
    """Open the view-state store of a consumer group.

    Args:
        url: the store, as `SEQUITUR_VIEW_STATE` names it. `module:function` is imported and called
            with the URL, the group and the data folder.
        group: the consumer group.
        datadir: the worker's folder, for `rocksdb` and `files` without a folder of their own; each
            keeps its tables in a folder `<group>`.

    Raises:
        TableError: the URL is of no known kind, a library is not installed, or the store cannot be
            opened.
    """
    try:
        return _opened(read_url(url), group, Path() if datadir is None else datadir)
    except UrlError as error:
        raise TableError(f"view-state store: {error}") from None


def _opened(url: str, group: str, datadir: Path) -> Store:
    kind, colon, rest = url.partition(":")
    local = _folder(rest, datadir) / group
    match kind:
        case "memory":
            from stores.view_state.memory import MemoryStore

            return MemoryStore()
        case "rocksdb":
            from stores.view_state.rocksdb import RocksStore

            return RocksStore(local)
        case "files":
            from stores.view_state.files import FileStore

            return FileStore(local)
        case "sqlite":
            from stores.view_state.sqlite import open_sqlite

            return open_sqlite(url, group)
        case "postgresql" | "postgres":
            require("view-state store", url, "psycopg", "postgres", TableError)
            from stores.view_state.postgres import open_postgres

            return open_postgres(url, group)
        case "redis" | "rediss" | "redis+unix":
            require("view-state store", url, "redis", "redis", TableError)
            from stores.view_state.redis import open_redis

            return open_redis(url, group)
    if colon and rest and not rest.startswith("/"):
        return _own(url)(url, group, datadir)
    close = closest(kind, _SCHEMES)
    raise TableError(
        f"view-state store {without_password(url)!r} is of no known kind{close}; use {KINDS}"
    )


def _folder(rest: str, datadir: Path) -> Path:
    return Path(rest.removeprefix("//")) if rest else datadir


def _own(url: str) -> Opening:
    """The function of `module:function`; what follows a `?` is for it."""
    try:
        opening: Opening = load("view-state store", url.partition("?")[0], "a URL")
    except DeclarationError as error:
        close = closest(url.partition(":")[0], _SCHEMES)
        raise TableError(f"{said(error, url)}{close}; use {KINDS}") from None
    return opening
