"""The journal of a Delta Lake read store: a file for each entry; the last ones are kept."""

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from stores.delta_files import Files
from stores.delta_journal import Entry, decoded
from stores.sink import StoreError

KEPT = 10
"""Entries; the last one counts, the others are for people."""
_SUFFIX = ".json"


class Taken(Exception):
    """Somebody else has written the next entry."""


class Notes:
    """The entries in a folder, by version."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self.folder = folder

    def versions(self) -> list[int]:
        """Of the entries that there are, in ascending order."""
        names = self._files.names(self.folder)
        return sorted(
            int(name.removesuffix(_SUFFIX))
            for name in names
            if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdigit()
        )

    def read(self, version: int) -> Entry:
        """An entry. Raises StoreError if it is none."""
        name = self._name(version)
        try:
            return decoded(self._files.read(name))
        except (ValueError, KeyError, TypeError, Py4JJavaError) as error:
            if isinstance(error, Py4JJavaError) and "Checksum" not in str(error.java_exception):
                raise
            raise StoreError(
                f"read store: {self._files.path(name)} is no entry of its journal ({error!r}); "
                "restore it, or the whole folder from a copy"
            ) from error

    def write(self, entry: Entry) -> None:
        """Add an entry. Raises Taken if there is one of that version."""
        try:
            self._files.create(self._name(entry.version), entry.encoded())
        except Py4JJavaError as error:
            if "FileAlreadyExists" in str(error.java_exception):
                raise Taken from error
            raise
        if entry.version >= KEPT:
            self._files.delete(self._name(entry.version - KEPT))

    def _name(self, version: int) -> str:
        return f"{self.folder}/{version:020}{_SUFFIX}"
