"""The journal of a Delta Lake read store: a file for each entry; the last ones are kept."""

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from stores.sinks.delta.files import HadoopFiles
from stores.sinks.delta.journal import JournalEntry, decoded
from stores.sinks.delta.numbered_files import NumberedFiles, VersionConflict
from stores.sinks.errors import StoreError


class JournalFiles:
    """The entries in a folder, by version."""

    def __init__(self, files: HadoopFiles, folder: str) -> None:
        self._kept = NumberedFiles(files, folder)
        self.folder = folder

    def versions(self) -> list[int]:
        """Of the entries that there are, in ascending order."""
        return self._kept.versions()

    def read(self, version: int) -> JournalEntry:
        """An entry. Raises StoreError if it is none."""
        try:
            return decoded(self._kept.content(version))
        except (ValueError, KeyError, TypeError, Py4JJavaError) as error:
            if isinstance(error, Py4JJavaError) and "Checksum" not in str(error.java_exception):
                raise
            name = self._kept.files.path(self._kept.name(version))
            raise StoreError(
                f"read store: {name} is no entry of its journal ({error!r}); "
                "restore it, or the whole folder from a copy"
            ) from error

    def write(self, entry: JournalEntry) -> None:
        """Add an entry. Raises VersionConflict if there is one of that version, or a later one."""
        self._kept.add(entry.version, entry.encoded())

    def check_last(self, entry: JournalEntry) -> None:
        """Raise VersionConflict if an entry is not the last one any more."""
        if self.versions()[-1:] != [entry.version]:
            raise VersionConflict
