"""The wall clock of a worker that is harmed: `time.time` and what a file says is added to it.

Import it first: what is imported before has seen the true time.
"""

import mmap
import os
import struct
import time
from pathlib import Path

_SECONDS = struct.Struct("<d")


def set_clock(file: Path, seconds: float) -> None:
    """Let the processes that follow the file have a clock that is so many seconds ahead."""
    if not file.exists():
        file.write_bytes(_SECONDS.pack(seconds))
        return
    with file.open("r+b") as opened:
        opened.write(_SECONDS.pack(seconds))


def follow(file: Path) -> None:
    """Have this process's wall clock follow the file from here on; monotonic clocks stay true."""
    with file.open("rb") as opened:
        ahead = mmap.mmap(opened.fileno(), _SECONDS.size, access=mmap.ACCESS_READ)
    true, true_ns = time.time, time.time_ns

    def moved() -> float:
        seconds: float = _SECONDS.unpack_from(ahead)[0]
        return true() + seconds

    def moved_ns() -> int:
        return true_ns() + int(_SECONDS.unpack_from(ahead)[0] * 1e9)

    time.time, time.time_ns = moved, moved_ns


FILE = os.environ.get("SOAK_CLOCK")
"""The file that this process follows, if any."""
if FILE is not None:
    follow(Path(FILE))
