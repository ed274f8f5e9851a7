"""The calls that file segments are made of; a test puts a disk in their place that loses power."""

import os
from pathlib import Path
from typing import Protocol


class FileSystem(Protocol):
    """Files of one folder. What is not synced may be lost: pages, and entries of the folder."""

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write at an offset; a file that is not there is made. Raises OSError."""
        ...

    def sync(self, name: str) -> None:
        """Return when a file's content survives a loss of power. Raises OSError."""
        ...

    def sync_folder(self) -> None:
        """Return when the folder's entries survive a loss of power. Raises OSError."""
        ...

    def read(self, name: str, start: int, end: int) -> bytes:
        """Read bytes; fewer, or none, where the file ends. Raises FileNotFoundError."""
        ...

    def size(self, name: str) -> int:
        """The bytes of a file. Raises FileNotFoundError."""
        ...

    def cut(self, name: str, end: int) -> None:
        """Drop what is behind `end`. Raises OSError."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file. Raises FileNotFoundError."""
        ...

    def names(self) -> list[str]:
        """The files of the folder."""
        ...


class LocalFolder:
    """A folder of this machine, which is made if it is not there."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        new = [each for each in (self.folder, *self.folder.parents) if not each.exists()]
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for each in new:  # their own entries, too
            _sync_folder(each.parent)

    def write(self, name: str, offset: int, data: bytes) -> None:
        descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            view = memoryview(data)
            while view:
                written = os.pwrite(descriptor, view, offset)
                view, offset = view[written:], offset + written
        finally:
            os.close(descriptor)

    def sync(self, name: str) -> None:
        descriptor = os.open(self.folder / name, os.O_RDWR)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_folder(self) -> None:
        _sync_folder(self.folder)

    def read(self, name: str, start: int, end: int) -> bytes:
        with (self.folder / name).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), end - start, start)

    def size(self, name: str) -> int:
        return (self.folder / name).stat().st_size

    def cut(self, name: str, end: int) -> None:
        os.truncate(self.folder / name, end)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink()

    def names(self) -> list[str]:
        return os.listdir(self.folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
