"""Whether a file is there, for those who would make it anew, or write over it."""

from pathlib import Path


def is_there(path: Path) -> bool:
    """Whether it exists. Raises OSError where that cannot be told.

    Since Python 3.14 `Path.exists` says no then: of a disk that does not answer, too.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
