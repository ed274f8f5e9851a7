"""A disk that loses power: what was not synced may be gone, torn, or zeros; entries, too."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from stores.segments import FileSegments


@dataclass(slots=True)
class FakeFile:
    now: bytes = b""
    durable: bytes = b""


class Crash(BaseException):
    """The process is killed here; nothing handles it."""


class Fuse:
    """Kills at the n-th step from now, if it is set."""

    def __init__(self) -> None:
        self.left: int | None = None

    def step(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise Crash


class FakeDisk(FileSegments):
    """In memory. before: called before each change, and may raise."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self.entries: dict[str, FakeFile] = {}
        self._durable: dict[str, FakeFile] = {}

    def write(self, name: str, offset: int, data: bytes) -> None:
        file = self.entries.setdefault(name, FakeFile())
        half = len(data) // 2
        for at, part in ((0, data[:half]), (half, data[half:])):
            self._before()
            old, place = file.now.ljust(offset + at, b"\0"), offset + at
            file.now = old[:place] + part + old[place + len(part) :]

    def sync(self, name: str) -> None:
        self._before()
        file = self.entries[name]
        file.durable = file.now

    def sync_folder(self) -> None:
        self._before()
        self._durable = dict(self.entries)

    def read(self, name: str, start: int, end: int) -> bytes:
        return self.entries[name].now[start:end] if name in self.entries else b""

    def size(self, name: str) -> int:
        return len(self.entries[name].now) if name in self.entries else 0

    def cut(self, name: str, end: int) -> None:
        self._before()
        if name in self.entries:
            self.entries[name].now = self.entries[name].now[:end]

    def remove(self, name: str) -> None:
        self._before()
        self.entries.pop(name, None)
        self.sync_folder()

    def names(self) -> list[str]:
        return list(self.entries)

    def lose_power(self, random: Random) -> None:
        """Keep of what was not synced whatever may be kept."""
        kept = dict(self._durable)
        for name, file in self.entries.items():
            if random.random() < 0.5:
                kept[name] = file
        for name in set(self._durable) - set(self.entries):
            if random.random() < 0.5:  # it was removed, which reached the disk
                del kept[name]
        for file in kept.values():
            behind = file.now[len(file.durable) :]
            if len(file.now) < len(file.durable):
                tail = b""
            else:
                tail = behind[: random.randint(0, len(behind))]
                if random.random() < 0.3:
                    tail = b"\0" * len(tail)
            file.now = file.durable = file.durable + tail
        self.entries, self._durable = dict(kept), dict(kept)
