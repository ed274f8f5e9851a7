"""What a soak does to its workers."""

import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from apps.soak.chaos import SESSION, Soak

ZOMBIE = "pause, a zombie wakes"
HARMS = {
    "kill": 6,
    "kill, folder deleted": 2,
    "kill, files damaged": 1,
    "stop": 1,
    ZOMBIE: 1,
    "disk full": 1,
}
"""Harm → how often it comes, in proportion."""


def harm(soak: Soak, chance: random.Random, names: Sequence[str]) -> str:
    """Do one thing to one of the workers, which runs afterwards; returns what was done.

    Raises RuntimeError if a worker ended before, by itself.
    """
    soak.supervise()
    name = chance.choice(names)
    # At least once, nothing keeps out what a zombie writes.
    harms = {h: n for h, n in HARMS.items() if h != ZOMBIE or soak.guarantee == "exactly_once"}
    what = chance.choices([*harms], [*harms.values()])[0]
    if what == ZOMBIE:
        soak.pause(name)
        time.sleep(SESSION + 1)
        soak.resume(name)
        return what
    if what == "disk full":
        soak.fill_disk(name)
        # A worker that has nothing to write does not notice.
        with suppress(TimeoutError):
            soak.says(name, "make room", 10)
        if chance.random() < 0.5:
            soak.free_disk(name)
            return what
    if what == "stop":
        soak.stop(name)
    else:
        soak.kill(name)
    if what == "kill, folder deleted":
        soak.forget(name)
    if what == "kill, files damaged":
        damage(soak.data(name), chance)
    soak.start(name)
    return what


def damage(folder: Path, chance: random.Random) -> None:
    """Truncate or overwrite files of a worker's tables."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    for path in chance.sample(files, min(3, len(files))):
        size = path.stat().st_size
        if chance.random() < 0.5:
            os.truncate(path, size // 2)
        else:
            with path.open("r+b") as file:
                file.seek(chance.randrange(size))
                file.write(b"\xa5" * 64)
