"""Segments as files of a folder."""

import os
from contextlib import suppress
from pathlib import Path


class LocalFolder:
    """A folder of this machine, which is made if it is not there.

    What is not synced may be lost: pages of a file, and entries of the folder. A file that is not
    there is empty. Everything raises OSError.
    """

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
        with suppress(FileNotFoundError), (self.folder / name).open("rb", buffering=0) as file:
            return os.pread(file.fileno(), end - start, start)
        return b""

    def size(self, name: str) -> int:
        with suppress(FileNotFoundError):
            return (self.folder / name).stat().st_size
        return 0

    def cut(self, name: str, end: int) -> None:
        with suppress(FileNotFoundError):
            os.truncate(self.folder / name, end)

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        return os.listdir(self.folder)


class FileSegments(LocalFolder):
    """See `SegmentStore`. Consumers and publishers are on the machine that has the folder."""

    def append(self, name: str, offset: int, data: bytes) -> None:
        self.write(name, offset, data)
        self.sync(name)
        if not offset:
            self.sync_folder()

    def remove(self, name: str) -> None:
        super().remove(name)
        self.sync_folder()

    def names(self) -> list[str]:
        return sorted(name for name in super().names() if name.endswith(".segment"))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
