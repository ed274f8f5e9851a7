"""View-state tables in flat files, which need no database and can be read with grep and less.

A folder per table holds `current`, which says which files count; `rows-N`, the sorted rows; and
`journal-N`, a line per write since: `[offset, rows]`. When the journal is long, both become a new
`rows-N`. Lines have checksums: a journal counts up to the first line that is not whole, so that
after a crash the table is at an earlier write, never between two.
"""

import fcntl
import os
import shutil
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from errno import EDQUOT, EFBIG, ENOSPC
from heapq import merge
from pathlib import Path
from typing import Any, BinaryIO

from stores.view_state.sorted_file import (
    Damaged,
    SortedFile,
    blocks,
    decode_line,
    decode_row,
    encode_line,
    encode_row,
    write_sorted,
)
from stores.view_state.table import TableError, TableFull
from topology.model.partition_table import Row

JOURNAL_BYTES = 8 << 20
FORMAT = 1


class FileTable:
    """The rows of one view in one partition, in the folder `path`.

    Damaged files are deleted when the table is opened: the caller sees `offset` is None and
    rebuilds it. Raises BlockingIOError while another process has it open.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = f"in {path}"
        self.offset: int | None = None
        self._recent: dict[bytes, bytes | None] = {}
        self._order: list[bytes] = []
        self._new: list[bytes] = []
        self._number = 0
        self._rows: SortedFile | None = None
        self._journal: Any = None
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(path.parent / f"{path.name}.lock", path)
        except BlockingIOError:
            raise
        except OSError as error:
            raise self._error("open", error) from error
        try:
            try:
                self._load()
            # Damaged is a ValueError; a file is missing in a new table, and after a kill while they
            # were deleted.
            except (LookupError, TypeError, ValueError, FileNotFoundError):
                self._start_empty()
        except OSError as error:
            self.close()
            raise self._error("open", error) from error

    def _load(self) -> None:
        current = self.path / "current"
        about = decode_line(current.read_bytes())
        if about["format"] != FORMAT:
            raise Damaged(f"format {about['format']}")
        self._number, self.offset = about["number"], about["offset"]
        if about["index"] is not None:
            self._rows = SortedFile(self._file("rows"), about["index"])
        whole = 0
        journal = self._file("journal")
        with journal.open("rb") as lines:
            for line in lines:
                try:
                    offset, rows = decode_line(line)
                except Damaged:
                    break
                whole += len(line)
                self._remember(dict(map(decode_row, rows)))
                self.offset = offset
        os.truncate(journal, whole)
        self._journal = journal.open("ab", buffering=0)
        for path in self.path.iterdir():
            if path not in (current, journal, self._file("rows")):
                path.unlink()

    def _start_empty(self) -> None:
        self._close_files()
        shutil.rmtree(self.path)
        self.path.mkdir()
        self._recent, self._order, self._new = {}, [], []
        self._number, self._rows, self.offset = 0, None, None
        self._begin(None)

    def _begin(self, index: int | None) -> None:
        """Begin a journal on top of the rows' file, and let both count from now on."""
        self._journal = self._file("journal").open("wb", buffering=0)
        about = {
            "format": FORMAT, "number": self._number, "index": index, "offset": self.offset,
        }  # fmt: skip
        beside = self.path / "current.new"
        with beside.open("wb") as file:
            file.write(encode_line(about))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path / "current")

    def _file(self, kind: str) -> Path:
        return self.path / f"{kind}-{self._number}"

    def claim(self) -> None:
        """Nothing to do: no other process can have it open."""

    def get(self, key: bytes) -> bytes | None:
        if key in self._recent:
            return self._recent[key]
        try:
            return None if self._rows is None else self._rows.get(key)
        except (OSError, ValueError) as error:
            raise self._error("read", error) from error

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        order, recent = self._sorted(), self._recent
        new = [(k, recent[k]) for k in order[bisect_left(order, first) : bisect_left(order, end)]]
        old: Iterable[Row] = () if self._rows is None else self._rows.scan(first, end)
        old = (row for row in old if row[0] not in recent)
        try:
            for key, value in merge(new, old, key=lambda row: row[0]):
                if value is not None:
                    yield key, value
        except (OSError, ValueError) as error:
            raise self._error("read", error) from error

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        last = dict(rows)
        offset = self.offset if offset is None else offset
        try:
            line = encode_line([offset, list(map(encode_row, last.items()))])
            while line:  # it takes a part where the disk has room for no more
                line = line[self._journal.write(line) :]
            self._remember(last)
            self.offset = offset
            if self._journal.tell() > JOURNAL_BYTES:
                self._compact()
        except (OSError, ValueError) as error:
            raise self._error("write", error) from error

    def _remember(self, rows: dict[bytes, bytes | None]) -> None:
        self._new += [key for key in rows if key not in self._recent]
        self._recent.update(rows)

    def _sorted(self) -> list[bytes]:
        """The keys of the journal; sorting what is sorted but for its end costs little."""
        if self._new:
            self._order += self._new
            self._order.sort()
            self._new = []
        return self._order

    def _compact(self) -> None:
        changes: list[Row] = [(key, self._recent[key]) for key in self._sorted()]
        before = (self._file("rows"), self._file("journal"))
        self._number += 1
        if self._rows is None:
            lines = blocks([row for row in changes if row[1] is not None])
        else:
            lines = self._rows.merged(changes)
        index = write_sorted(self._file("rows"), lines)
        self._close_files()
        self._begin(index)
        self._rows = SortedFile(self._file("rows"), index)
        self._recent, self._order = {}, []
        for path in before:
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        try:
            self._start_empty()
        except OSError as error:
            raise self._error("empty", error) from error

    def _error(self, doing: str, error: Exception) -> TableError:
        what = f"cannot {doing} the table in {self.path}: {error}"
        if isinstance(error, OSError) and error.errno in (ENOSPC, EDQUOT, EFBIG):
            return TableFull(
                f"{what}; make room on the disk, and it goes on by itself, or start the worker "
                "with another data folder (SEQUITUR_DATADIR). Nothing is lost: what is missing is "
                "read from the changelog"
            )
        return TableError(
            f"{what}; check the disk and the folder's "
            "rights. Deleting the folder loses nothing: it is rebuilt from the changelog"
        )

    def _close_files(self) -> None:
        if self._rows is not None:
            self._rows.close()
        if self._journal is not None:
            self._journal.close()

    def close(self) -> None:
        """Close the files, with all that was written."""
        self._close_files()
        self._lock.close()


def _lock(path: Path, table: Path) -> BinaryIO:
    # A file object: a table that nobody keeps lets go of it.
    descriptor = path.open("ab")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        descriptor.close()
        raise BlockingIOError(
            f"the table in {table} is open in another process; "
            "give every worker a data folder of its own (SEQUITUR_DATADIR)"
        ) from error
    return descriptor


class FileStore:
    """Tables in the folders `<folder>/<view>/<partition>`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def table(self, view: str, partition: int) -> FileTable:
        return FileTable(self.folder / view / str(partition))

    def close(self) -> None:
        """Nothing to do."""
