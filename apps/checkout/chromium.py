"""The Chromium of this machine, which the tests of the console drive."""

import os
import shutil
import subprocess
from pathlib import Path

from checkout.console import say

PACKAGE = "chromium"
_NAMES = (PACKAGE, "chromium-browser", "google-chrome", "google-chrome-stable")


def browser_file() -> Path | None:
    """The browser, or None."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    return None if found is None else Path(found)


def missing() -> str | None:
    """Why the console is not tested in a browser, or None."""
    if browser_file() is not None:
        return None
    return (
        f"The browser tests did not run: no Chromium on this machine; install the package {PACKAGE}"
    )


def install() -> None:
    """Install Debian's where that is allowed: as root, with apt."""
    apt = shutil.which("apt-get")
    if browser_file() is None and os.geteuid() == 0 and apt is not None:
        say(f"Installing {PACKAGE}, which the tests of the console need")
        env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        command = [apt, "install", "-y", "-q", "--no-install-recommends", PACKAGE]
        subprocess.run(command, env=env, check=False, stdout=subprocess.DEVNULL)
