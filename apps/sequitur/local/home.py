"""Where things lie: in the checkout's ignored `.sequitur/`, or in the user's cache."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
"""The checkout, where this is one."""
IS_CHECKOUT = (ROOT / "scripts" / "setup").is_file()


def home() -> Path:
    """Return the folder of what is fetched or made: SEQUITUR_HOME, or the one that fits."""
    if given := os.environ.get("SEQUITUR_HOME"):
        return Path(given).absolute()
    if IS_CHECKOUT:
        return ROOT / ".sequitur"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sequitur"


HOME = home()

VENV = HOME / "venv"
JVM = HOME / "jvm"
JARS = HOME / "jars"
LOGS = HOME / "logs"


class LocalError(RuntimeError):
    """Something of the local set-up failed: what, why, and what to do about it."""

    def __init__(self, what: str, reason: str, remedy: str) -> None:
        super().__init__(f"{what}: {reason}\n  Remedy: {remedy}")


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock file at `path`; yield whether it is ours, which only `wait=False` leaves open.

    The lock ends with the process that holds it, however that ends.
    """
    descriptor = lock(path, wait=wait)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def lock(path: Path, *, wait: bool) -> int | None:
    """Lock the file at `path` and return its descriptor, or None if somebody else holds it."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
