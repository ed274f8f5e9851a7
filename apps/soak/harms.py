"""What a soak does to its workers."""

import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from soak.chaos import SESSION, Soak

ZOMBIE = "pause, a zombie wakes"
LEAP = 6 * 3600.0
"""Seconds that a clock leaps: further than any deadline of the soak's views."""

Harm = Callable[[Soak, random.Random, str], str]
"""(soak, chance, worker) → what was done, where that is more than the harm's name. The worker runs
afterwards."""


def kill(soak: Soak, chance: random.Random, name: str) -> str:
    soak.kill(name)
    if chance.random() < 0.3:
        soak.keep(name)
    soak.start(name)
    return ""


def delete_folder(soak: Soak, chance: random.Random, name: str) -> str:
    soak.kill(name)
    soak.forget(name)
    soak.start(name)
    return ""


def old_folder(soak: Soak, chance: random.Random, name: str) -> str:
    soak.kill(name)
    done = "" if soak.bring_back(name) else "kill"
    soak.keep(name)
    soak.start(name)
    return done


def damage_files(soak: Soak, chance: random.Random, name: str) -> str:
    soak.kill(name)
    damage(soak.data(name), chance)
    soak.start(name)
    return ""


def stop(soak: Soak, chance: random.Random, name: str) -> str:
    soak.stop(name)
    soak.start(name)
    return ""


def zombie(soak: Soak, chance: random.Random, name: str) -> str:
    soak.pause(name)
    time.sleep(chance.choice([SESSION + 1, 20]))
    soak.resume(name)
    return ""


def leap(soak: Soak, chance: random.Random, name: str) -> str:
    """Its clock leaps while it works, and for half of the times back again after a while."""
    soak.leap(name, chance.choice([LEAP, -LEAP]))
    if chance.random() < 0.5:
        time.sleep(chance.uniform(1, 10))
        soak.leap(name, 0)
    return ""


def wrong_clock(soak: Soak, chance: random.Random, name: str) -> str:
    """It starts anew, on a machine whose clock is wrong."""
    soak.kill(name)
    soak.start(name, chance.choice([LEAP, -LEAP]))
    return ""


def refuse_writes(soak: Soak, chance: random.Random, name: str) -> str:
    """Whatever it writes is refused; then there is room again, or it is killed."""
    soak.fill_disk(name)
    # A worker that has nothing to write does not notice.
    with suppress(TimeoutError):
        soak.says(name, "make room", 10)
    if chance.random() < 0.5:
        soak.free_disk(name)
    else:
        kill(soak, chance, name)
    return ""


def full_disk(soak: Soak, chance: random.Random, name: str) -> str:
    """It is killed, starts on a disk without room, and gets room after a while."""
    if name in soak.disks:
        return refuse_writes(soak, chance, name) or "writes refused"
    soak.kill(name)
    try:
        soak.no_room(name)
    except OSError:
        # Without the right to mount, or a table to fill the disk with.
        soak.start(name)
        return refuse_writes(soak, chance, name) or "writes refused"
    soak.start(name)
    with suppress(TimeoutError):
        soak.says(name, "make room", 20)
    soak.room(name)
    return ""


HARMS: dict[str, tuple[int, Harm]] = {
    "kill": (6, kill),
    "kill, folder deleted": (2, delete_folder),
    "kill, an old folder comes back": (2, old_folder),
    "kill, files damaged": (1, damage_files),
    "stop": (1, stop),
    ZOMBIE: (1, zombie),
    "clock leaps": (2, leap),
    "kill, the clock is wrong": (1, wrong_clock),
    "writes refused": (1, refuse_writes),
    "kill, disk full": (1, full_disk),
}
"""Harm → how often it comes, in proportion, and what does it."""


def harm(soak: Soak, chance: random.Random, names: Sequence[str]) -> str:
    """Do one thing to one of the workers, which runs afterwards; returns what was done.

    Raises RuntimeError if a worker ended before, by itself.
    """
    soak.supervise()
    name = chance.choice(names)
    # At least once, nothing keeps out what a zombie writes.
    harms = {h: n for h, n in HARMS.items() if h != ZOMBIE or soak.guarantee == "exactly_once"}
    what = chance.choices([*harms], [often for often, _ in harms.values()])[0]
    return harms[what][1](soak, chance, name) or what


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
