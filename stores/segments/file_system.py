"""The calls that file segments are made of; a test puts a disk in their place that loses power."""

import os
from pathlib import Path


class LocalFolder:
    """A folder of this machine, which is made if it is not there.

    What is not synced may be lost: pages of a file, and entries of the folder. Everything raises
    OSError: FileNotFoundError where there is no such file to be read, cut or removed.
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
