"""Files of one folder that are numbered one after the other, each written once."""

from stores.sinks.delta.files import HadoopFiles

KEPT = 10
"""The last one counts, the others are for people."""
_SUFFIX = ".json"


class VersionConflict(Exception):
    """Somebody else has written the next one."""


class NumberedFiles:
    """The files in a folder, by version."""

    def __init__(self, files: HadoopFiles, folder: str) -> None:
        self.files = files
        self.folder = folder

    def versions(self) -> list[int]:
        """Of the files that there are, in ascending order."""
        names = self.files.names(self.folder)
        return sorted(
            int(name.removesuffix(_SUFFIX))
            for name in names
            if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX).isdigit()
        )

    def content(self, version: int) -> bytes:
        """What a file holds. Raises py4j's error if it is not there."""
        return self.files.read(self.name(version))

    def add(self, version: int, content: bytes) -> None:
        """Write a file. Raises VersionConflict if there is one of that version, or a later one.

        Of somebody who is far behind, the file of that version may have been deleted already.
        """
        if version <= max(self.versions(), default=-1):
            raise VersionConflict
        try:
            self.files.create(self.name(version), content)
        except FileExistsError as error:
            raise VersionConflict from error
        if version >= KEPT:
            self.files.delete(self.name(version - KEPT))

    def name(self, version: int) -> str:
        """A file as `HadoopFiles` names it."""
        return f"{self.folder}/{version:020}{_SUFFIX}"
