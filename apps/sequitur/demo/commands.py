"""The commands that start Sequitur's parts, as a person would type them."""

import sys
from pathlib import Path

from sequitur.demo.processes import Child

_APP = "sequitur.flights"


def worker(broker: str, folder: Path) -> Child:
    """Start `faust -A sequitur.flights worker`; its tables go to `folder`/worker."""
    return Child(
        "worker",
        [sys.executable, "-m", "faust", "-A", _APP, "worker", "-l", "info", "--without-web"],
        folder / "worker.log",
        {"SEQUITUR_BROKER": broker, "SEQUITUR_DATADIR": str(folder / "worker")},
    )


def console(broker: str, folder: Path) -> Child:
    """Start `sequitur console` on a free port; with CONSOLE_TOKEN set one can act there, too."""
    return Child(
        "console",
        [sys.executable, "-m", "sequitur", "console", "-A", _APP, "--port", "0"],
        folder / "console.log",
        {"SEQUITUR_BROKER": broker},
    )


def materializer(broker: str, folder: Path, store: Path) -> Child:
    """Start `sequitur materialize` into the SQLite file `store`."""
    options = {
        "--topology": "sequitur.flights.topology:topology",
        "--broker": broker,
        "--read-store": f"sqlite:///{store}",
        "--checkpoint": str(folder / "checkpoint"),
        "--max-rows-per-trigger": "50000",  # the first rows sooner, not many at once
    }
    arguments = [word for option in options.items() for word in option]
    command = [sys.executable, "-m", "sequitur", "materialize", *arguments]
    return Child("materializer", command, folder / "materializer.log")
