"""Segments as files of a folder."""

from contextlib import suppress
from pathlib import Path

from stores.segments.file_system import LocalFolder

_ENDING = ".segment"


class FileSegments:
    """See `SegmentStore`. Consumers and publishers are on the machine that has the folder.

    Args:
        folder: where; made if it is not there.
        file_system: the calls, for tests.
    """

    def __init__(self, folder: str | Path, *, file_system: LocalFolder | None = None) -> None:
        self._files = file_system or LocalFolder(folder)

    def append(self, name: str, offset: int, data: bytes) -> None:
        self._files.write(name, offset, data)
        self._files.sync(name)
        if not offset:
            self._files.sync_folder()

    def read(self, name: str, start: int, end: int) -> bytes:
        try:
            return self._files.read(name, start, end)
        except FileNotFoundError:
            return b""

    def size(self, name: str) -> int:
        try:
            return self._files.size(name)
        except FileNotFoundError:
            return 0

    def cut(self, name: str, end: int) -> None:
        with suppress(FileNotFoundError):
            self._files.cut(name, end)

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.remove(name)

    def names(self) -> list[str]:
        return sorted(name for name in self._files.names() if name.endswith(_ENDING))
