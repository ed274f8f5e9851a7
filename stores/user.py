"""Who runs this process, under whom is recorded what it was told."""

import getpass
import os


def user_name() -> str:
    """The user's name, as LOGNAME or the system has it; else its number, as in many containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
