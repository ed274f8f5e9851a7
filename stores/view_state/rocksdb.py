"""A view's table in RocksDB: one database per view and partition, standing at a changelog offset.

The changelog topic is the log: RocksDB's own write-ahead log is off, and the changelog offset is in
the same write batch as the rows it stands for. After a crash a database is therefore at some
earlier commit, never between two, and what is missing is read from the changelog.
"""

import shutil
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakSet

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
    WriteOptions,
)

from stores.paths import is_there
from stores.view_state.table import TableBusy, TableError, TableFull, TableUnavailable
from topology.model.partition_table import Row

OFFSET = b"\0offset"
"""The key of the changelog offset; it sorts before every row."""
FORMAT = b"\0format"
CURRENT_FORMAT = b"1"

CACHE_BYTES = 64 << 20
WRITE_BUFFER_BYTES = 8 << 20

_cache: list[Cache] = []


def _options() -> Options:
    if not _cache:
        _cache.append(Cache(CACHE_BYTES))
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_compression_type(DBCompressionType.lz4())
    table = BlockBasedOptions()
    table.set_block_cache(_cache[0])
    table.set_bloom_filter(10, False)
    table.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(table)
    return options


FULL = ("no space left", "file too large", "quota exceeded")
"""What RocksDB and the system call it. They say so in texts only."""
HELD_UP = (
    *("too many open files", "permission denied", "cannot allocate memory", "no locks available"),
    "read-only file system",
)
"""What the system calls it that this process may not, or cannot, do: the files are all right."""
LOCKED = ("lock hold by current process", "resource temporarily unavailable")
"""What RocksDB and the system say of a lock that somebody has."""
STALL = ("write stall", "result incomplete")
"""What RocksDB calls it that it would have to wait for its disk."""


def _text(error: Exception, path: Path) -> str:
    """What an error says, without the path, which may have any word in it."""
    return str(error).replace(str(path), "").lower()


def _failure(doing: str, path: Path, error: Exception) -> TableError:
    what = f"cannot {doing} the table in {path}: {error}"
    text = _text(error, path)
    if any(sign in text for sign in STALL):
        return TableBusy(f"the table in {path} has taken no write")
    if any(sign in text for sign in FULL):
        return TableFull(
            f"{what}; make room on the disk, and it goes on by itself, or start the worker with "
            "another data folder (SEQUITUR_DATADIR)"
        )
    if any(sign in text for sign in HELD_UP):
        return TableUnavailable(
            f"{what}; let the worker open files there, and enough of them (ulimit -n), and it goes "
            "on by itself"
        )
    return TableError(
        f"{what}; check the disk and the folder's rights. Deleting the folder loses nothing: it "
        "is rebuilt from the changelog"
    )


class _Closed:
    """In the place of a database that is closed: all there is of it raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("it is closed")


class RocksTable:
    """The rows of one view in one partition, in the folder `path`.

    A folder that RocksDB cannot open, or of another format, is deleted: the caller sees `offset` is
    None and rebuilds it. Raises TableError if it cannot be opened at all, BlockingIOError while
    another process has it open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db: Any
        self.name = f"in {path}"
        self._scans = WeakSet[Generator[tuple[bytes, bytes], None, None]]()
        self._write_options = WriteOptions()
        self._write_options.disable_wal = True  # type: ignore[method-assign,assignment]
        # While its files have no room, RocksDB would let a write stand, for ever if need be.
        self._write_options.no_slowdown = True
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = self._open()
            self.offset = self._read_offset()
        except BlockingIOError:
            raise
        except Exception as reason:
            failure = _failure("open", path, reason)
            if isinstance(failure, TableUnavailable):
                raise failure from reason
            self._delete()
            try:
                self._db = self._open()
            except Exception as error:
                raise _failure("open", path, error) from error
            self.offset = None

    def _open(self) -> Rdict:
        try:
            return Rdict(str(self.path), options=_options(), access_type=AccessType.read_write())
        except Exception as error:
            text = _text(error, self.path)
            if "lock" in text and any(sign in text for sign in LOCKED):
                raise BlockingIOError(
                    f"the table in {self.path} is open in another process, or is still being "
                    "closed; give every worker a data folder of its own (SEQUITUR_DATADIR)"
                ) from error
            raise

    def _read_offset(self) -> int | None:
        """The changelog offset that comes next, None for an empty table."""
        try:
            if self._db.get(FORMAT) == CURRENT_FORMAT and (found := self._db.get(OFFSET)):
                return int(found)
        except Exception:
            with suppress(Exception):
                self._db.close()
            raise
        return None

    def claim(self) -> None:
        """Nothing to do: no other process can have it open."""

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise _failure("read", self.path, error) from error
        return value

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        found = self._scan(first, end)
        self._scans.add(found)
        return found

    def _scan(self, first: bytes, end: bytes) -> Generator[tuple[bytes, bytes], None, None]:
        rows: Any = None
        try:
            rows = self._db.iter()
            rows.seek(first)
            while rows.valid() and (key := rows.key()) < end:
                yield key, rows.value()
                rows.next()
            # At a damaged block it is as if there were no more rows, but for what this raises.
            rows.status()
        except (GeneratorExit, TableError):
            raise
        except Exception as error:
            raise _failure("read", self.path, error) from error
        finally:
            # Whoever keeps the error would keep the database open with it.
            del rows

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        batch = WriteBatch(raw_mode=True)
        put, delete = batch.put, batch.delete
        for key, value in rows:
            if value is None:
                delete(key)
            else:
                put(key, value)
        if offset is not None:
            put(OFFSET, b"%d" % offset)
            put(FORMAT, CURRENT_FORMAT)
        try:
            self._db.write(batch, self._write_options)
        except Exception as error:
            raise _failure("write", self.path, error) from error
        if offset is not None:
            self.offset = offset

    def clear(self) -> None:
        """Delete everything and start empty. After a TableError open it anew."""
        with suppress(Exception):
            self._let_go()
        try:
            self._delete()
            self._db = self._open()
        except Exception as error:
            raise _failure("empty", self.path, error) from error
        self.offset = None

    def _delete(self) -> None:
        if is_there(self.path):
            shutil.rmtree(self.path)

    def close(self) -> None:
        """Close the database, flushed, so that a restart need not read the changelog again.

        Raises TableError if it cannot be flushed; it is closed then as well.
        """
        try:
            self._let_go()
        except Exception as error:
            raise _failure("close", self.path, error) from error

    def _let_go(self) -> None:
        """Close the database here and now, not when somebody forgets it, or a scan of it: on a full
        disk it takes a second."""
        db, self._db = self._db, _Closed()
        for each in self._scans.copy():
            with suppress(ValueError):  # it is read at this moment
                each.close()
        try:
            db.close()
        finally:
            del db


class RocksStore:
    """Tables in the folders `<folder>/<view>/<partition>`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, view: str, partition: int) -> RocksTable:
        return RocksTable(self.folder / view / str(partition))

    def close(self) -> None:
        """Nothing to do."""
