"""`sequitur broker`: a Kafka broker of one's own on this machine."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

import click

from sequitur.cli.group import Group
from sequitur.cli.options import FILE, PORT
from sequitur.cli.signals import take_signals
from sequitur.cli.statuses import BAD_NEWS, CANNOT, DONE
from sequitur.local import jars
from sequitur.local.broker import Broker
from sequitur.local.broker_config import check_folder
from sequitur.local.home import HOME, LocalError, locked
from sequitur.local.process import command_of, tail

START_SECONDS = 120.0
STOP_SECONDS = 60.0

DATA = HOME / "broker"

_RUNS = "runs"
"""The file of a broker's folder that says who runs it, and where it listens."""


def _place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the folder."""
    return click.option("--data", type=FILE, default=DATA, help="Folder of its records.")(function)


_port = click.option("--port", type=PORT, default=9092, show_default=True, help="On the loopback.")


@click.group("broker", cls=Group)
def command() -> None:
    """Run a Kafka broker on this machine, without Docker.

    \b
    sequitur broker start      runs one in the background
    sequitur broker stop       its records stay in the folder

    It listens on the loopback interface only, and makes no topics by itself:
    faust -A MODULE topics --create
    """


@command.command()
@_port
@_place
def run(port: int, data: Path) -> int:
    """Run a broker until Ctrl-C or SIGTERM."""
    return _status(lambda: _run(data, port))


@command.command()
@_port
@_place
def start(port: int, data: Path) -> int:
    """Run a broker in the background."""
    return _status(lambda: _start(data.absolute(), port))


@command.command()
@_place
def stop(data: Path) -> int:
    """Stop the broker of a folder; its records stay there."""
    return _status(lambda: _stop(data.absolute()))


@command.command()
@_place
def status(data: Path) -> int:
    """Show whether a broker runs, and where; status 1 if none does."""
    found = runner(data.absolute())
    if found is None:
        print(f"no broker runs in {data}")
        return BAD_NEWS
    print(f"a broker runs at {found[1]}, process {found[0]}")
    return DONE


def runner(data: Path) -> tuple[int, str] | None:
    """Return (process, host:port) of the broker that runs in a folder, None if there is none."""
    try:
        pid, address = (data / _RUNS).read_text().split()
    except (OSError, ValueError):
        return None  # it is starting, or was not started here
    if not _is_runner(pid):
        return None  # what one wrote that has ended stays until the next one listens
    with locked(data / "lock", wait=False) as free:
        return None if free else (int(pid), address)


def _is_runner(pid: str) -> bool:
    return pid.isdecimal() and {"broker", "run"} <= set(command_of(int(pid)).split())


def _install() -> None:
    if not jars.installed(jars.BROKER):
        print("fetching the broker, which is done once (43 MB) …", flush=True)
        jars.install(jars.BROKER)


def _run(data: Path, port: int) -> int:
    _install()
    ended = Event()
    take_signals(ended)
    with Broker(data, port) as broker:
        (broker.data / _RUNS).write_text(f"{os.getpid()} {broker.address}")
        print(f"Kafka broker at {broker.address}, log: {broker.log}; Ctrl-C ends it", flush=True)
        while not ended.wait(0.5):
            if not broker.running:
                raise LocalError(
                    f"Kafka broker at {broker.address}",
                    f"it ended by itself; the end of {broker.log}:\n{tail(broker.log)}",
                    "read the log and start it again",
                )
    return DONE


def _start(data: Path, port: int) -> int:
    if (found := runner(data)) is not None:
        print(f"a broker runs at {found[1]} already")
        return DONE
    check_folder(data)
    _install()
    data.mkdir(parents=True, exist_ok=True)
    (data / _RUNS).unlink(missing_ok=True)  # of one that has ended
    command = [sys.executable, "-m", "sequitur", "broker", "run"]
    command += ["--port", str(port), "--data", str(data)]
    log = data / "start.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS
    while (found := runner(data)) is None:
        if process.poll() is not None:
            print(log.read_text(errors="replace").strip(), file=sys.stderr)
            return CANNOT
        if time.monotonic() > deadline:
            process.terminate()
            raise LocalError(
                f"Kafka broker in {data}",
                f"it did not answer within {START_SECONDS:g} s",
                f"read {data / 'broker.log'}",
            )
        time.sleep(0.1)
    where = "" if data == DATA else f" --data {shlex.quote(str(data))}"
    print(f"a broker runs at {found[1]}; stop it: sequitur broker stop{where}")
    return DONE


def _stop(data: Path) -> int:
    found = runner(data)
    if found is None:
        print(f"no broker runs in {data}")
        return DONE
    os.kill(found[0], signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while runner(data) is not None:
        if time.monotonic() > deadline:
            raise LocalError(
                f"Kafka broker in {data}",
                f"process {found[0]} did not end within {STOP_SECONDS:g} s",
                "see what it does, or kill it",
            )
        time.sleep(0.1)
    print("stopped")
    return DONE


def _status(work: Callable[[], int]) -> int:
    try:
        return work()
    except (LocalError, OSError) as error:
        print(error, file=sys.stderr)
        return CANNOT
