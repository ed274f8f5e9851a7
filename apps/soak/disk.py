"""A disk that is really full: a file system in memory under a worker's data folder."""

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

_SPARE = 64 << 10
"""Bytes beyond what is there: less than any table needs to go on."""


class SmallDisk:
    """A mounted file system of its own under `folder`. Needs the right to mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def mount(self) -> None:
        """Put a full file system under the folder, with the folder's files on it.

        Raises OSError where this process may not mount.
        """
        used = sum(path.stat().st_blocks * 512 for path in self.folder.rglob("*"))
        aside = self.folder.with_suffix(".aside")
        self.folder.rename(aside)
        self.folder.mkdir()
        try:
            self._mount(f"size={2 * used + (8 << 20)}")
        except OSError:
            self.folder.rmdir()
            aside.rename(self.folder)
            raise
        shutil.copytree(aside, self.folder, dirs_exist_ok=True)
        shutil.rmtree(aside)
        self._fill()

    def _fill(self) -> None:
        free = os.statvfs(self.folder)
        left = free.f_bavail * free.f_frsize - _SPARE
        with (self.folder / ".filler").open("wb") as file, suppress(OSError):
            os.posix_fallocate(file.fileno(), 0, max(left, 4096))

    def enlarge(self) -> None:
        """Make room."""
        self._mount(f"remount,size={1 << 30}")
        (self.folder / ".filler").unlink(missing_ok=True)

    def unmount(self) -> None:
        """Take it away; its files are in a plain folder of that name afterwards."""
        aside = self.folder.with_suffix(".aside")
        shutil.copytree(self.folder, aside, ignore=shutil.ignore_patterns(".filler"))
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True, capture_output=True)
        self.folder.rmdir()
        aside.rename(self.folder)

    def _mount(self, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise OSError(f"no file system can be mounted: {done.stderr.strip()}")
