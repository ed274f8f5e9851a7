"""A view-state store as a user would write it, from the public face only: a SQLite file a table."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from stores.view_state import Row, Store, TableError, ViewTable

PAGE = 500
SCHEMA = """
CREATE TABLE IF NOT EXISTS rows (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS at (one INTEGER PRIMARY KEY CHECK (one = 1), next INTEGER);
"""


class OwnTable:
    """A view's rows of one partition, in a file of their own."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        with self._errors():
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.executescript(SCHEMA)

    @property
    def offset(self) -> int | None:
        with self._errors():
            found = self._db.execute("SELECT next FROM at").fetchone()
        return None if found is None else int(found[0])

    def claim(self) -> None:
        """The file is this worker's alone."""

    def get(self, key: bytes) -> bytes | None:
        with self._errors():
            found = self._db.execute("SELECT value FROM rows WHERE key = ?", (key,)).fetchone()
        return None if found is None else bytes(found[0])

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        query = f"SELECT key, value FROM rows WHERE key >= ? AND key < ? ORDER BY key LIMIT {PAGE}"
        while True:
            with self._errors():
                page = self._db.execute(query, (first, end)).fetchall()
            yield from page
            if len(page) < PAGE:
                return
            first = page[-1][0] + b"\0"

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        new = dict(rows)
        put = [(key, value) for key, value in new.items() if value is not None]
        with self._transaction():
            self._db.executemany(
                "DELETE FROM rows WHERE key = ?", [(key,) for key in new if new[key] is None]
            )
            self._db.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)", put)
            if offset is not None:
                self._db.execute("INSERT OR REPLACE INTO at VALUES (1, ?)", (offset,))

    def clear(self) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM rows")
            self._db.execute("DELETE FROM at")

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            told = f"{self.name}: {error}; delete it, and it is caught up from the changelog"
            raise TableError(told) from error


class OwnStore:
    """A folder of a consumer group."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def table(self, view: str, partition: int) -> ViewTable:
        return OwnTable(self._folder / f"{view.encode().hex()}-{partition}.sqlite")

    def close(self) -> None:
        """Every table is closed already."""


def open_it(url: str, group: str, datadir: Path) -> Store:
    """`module:open_it?FOLDER`."""
    return OwnStore(Path(url.partition("?")[2]) / group)
