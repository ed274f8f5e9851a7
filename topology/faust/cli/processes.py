"""`faust -A app worker --processes 4`: several workers under one supervisor."""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

import click
from faust.cli.worker import worker
from mode.utils.logging import level_number

from topology.faust.cli.answering import CANNOT
from topology.faust.cli.options import NUMBER
from topology.faust.processes import NumberedWorker

PROCESSES = click.Option(
    ["--processes"], type=NUMBER, help="Run so many workers, and start again what dies of them."
)


def register() -> None:
    """Give Faust's `worker` the option. It is one for all apps of a process."""
    command: Any = worker._click
    if PROCESSES in command.params:
        return
    run = command.callback

    def run_or_supervise(processes: int | None, **options: Any) -> Any:
        own = NumberedWorker.of(os.environ)
        if own is not None:
            own.end_with_supervisor()
            if (first := options["web_port"]) is not None:
                options["web_port"] = own.port(first)
        elif processes is not None:
            raise SystemExit(_supervise(processes))
        return run(**options)

    command.callback = run_or_supervise
    command.params.insert(0, PROCESSES)


def _supervise(processes: int) -> int:
    """Run as many workers with the words of this process; the exit status."""
    # It brings a server, which no other command has to load.
    from topology.faust.processes.supervisor import Supervisor

    found = worker(click.get_current_context())
    if found.logfile:
        raise click.UsageError("--processes has one log, on standard error: redirect that instead")
    if found.workdir and not Path(found.workdir).is_absolute():
        raise click.UsageError("--processes needs the whole path of --workdir")
    logging.basicConfig(
        level=level_number(found.loglevel),
        format="supervisor | [%(asctime)s] [%(process)s] [%(levelname)s] %(message)s",
    )
    app: Any = found.app
    settings = app.engine.settings
    try:
        NumberedWorker(processes, os.getpid()).settings(settings)  # the last one has them all
    except ValueError as error:
        raise click.UsageError(f"--processes: {error}") from None
    address = settings.metrics

    async def run() -> int:
        return await Supervisor([sys.executable, *sys.orig_argv[1:]], processes, address).run()

    try:
        return asyncio.run(run())
    except OSError as error:
        print(f"cannot listen at {address}: {error}", file=sys.stderr)
        return CANNOT
