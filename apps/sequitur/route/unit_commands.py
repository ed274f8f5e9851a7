"""`sequitur route consume|publish|segments`: units of work across processes."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import click

from sequitur.cli.options import FILE, metrics_option
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.running import run_until_stopped
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.local.process import spawn
from sequitur.route.loading import load_units
from sequitur.route.pages import RoutePages
from sequitur.route.units import RouterUnits
from stores.db.urls import said
from stores.segments import Pair, PublishRefused, SegmentError, skip_damage
from stores.segments.damage import is_intact
from stores.segments.day_of import DAY, DAY_ID, Endable
from stores.segments.owned_work import OwnedWork
from topology.model.closest import closest
from topology.model.counted import counted
from topology.model.ending import end_tasks
from topology.model.errors import DeclarationError
from topology.model.printable import printable

logger = logging.getLogger("route")
NOBODY = "nobody"
STOP = 60.0
"""Seconds that processes get to end in order."""
STOPPED = 15.0
"""Seconds until what needs somebody to look at it is tried again."""
_TRANSPORT = click.option("--transport", metavar="NAME", help="Of this transport alone.")


@click.command()
@click.argument("router", type=FILE)
@_TRANSPORT
@metrics_option
def consume(router: Path, transport: str | None, metrics: str | None) -> int:
    """Consume the sources of ROUTER, and save what comes of them in segments.

    There is a process for each transport, with a task for each topic. Start any
    number: one of them owns a topic, the others stand by.
    """
    return _run("consume", router, transport, metrics)


@click.command()
@click.argument("router", type=FILE)
@_TRANSPORT
@metrics_option
def publish(router: Path, transport: str | None, metrics: str | None) -> int:
    """Publish what the segments of ROUTER hold.

    There is a process for each transport, with a task for each topic. Start any
    number: one of them owns a pair of both, the others stand by.
    """
    return _run("publish", router, transport, metrics)


@click.command()
@click.argument("router", type=FILE)
@click.option("--skip", metavar="TOPIC", help="Go on behind the damage of this topic's segment.")
@click.option("--transport", metavar="NAME", help="The pair's transport, with --skip.")
@click.option("--reason", help="Why, which is kept in the ledger; with --skip.")
@click.option("--dry-run", is_flag=True, help="Say what --skip would lose, and do nothing.")
def segments(
    router: Path, skip: str | None, transport: str | None, reason: str | None, dry_run: bool
) -> int:
    """List the pairs of ROUTER: START, END, bytes to publish, owner.

    Ends with status 1 if a segment is damaged at START, or a stream is parked. --skip
    loses what the damage holds, so that its publisher goes on.
    """

    def run() -> int:
        units = _load(router, there=True)
        if skip is None:
            return _list(units)
        if transport is None or (reason is None and not dry_run):
            raise DeclarationError("--skip: name the --transport, and give a --reason")
        if transport not in units.transports:
            raise DeclarationError(f"there is no transport {transport!r}")
        make = units.transports[transport].outbound
        if make is None:
            raise DeclarationError(f"transport {transport!r} has no destinations: nothing to skip")
        skipping = skip_damage(
            units.ledger,
            units.store,
            Pair(skip, transport),
            make(units.name),
            reason=reason or "",
            dry_run=dry_run,
        )
        found = asyncio.run(skipping)
        word = "would skip" if dry_run else "skipped"
        print(f"{word} bytes {found.start} to {found.behind} of segment {found.name}")
        return DONE

    return _status(run)


@click.command("end-of-day")
@click.argument("router", type=FILE)
@click.argument("day")
@click.option("--source", metavar="TOPIC", multiple=True, help="Into this one; default: all.")
@click.option("--force", is_flag=True, help="Also a day that looks mistyped, or was withdrawn.")
@click.option("--withdraw", is_flag=True, help="Take the end of the open or the last day back.")
@click.option("--reason", help="Why, which is kept in the ledger; with --withdraw.")
def end_of_day(
    router: Path,
    day: str,
    source: tuple[str, ...],
    force: bool,
    withdraw: bool,
    reason: str | None,
) -> int:
    """End a DAY in all partitions of the sources of ROUTER.

    A day's id is text such as 2013-01-31; a later day's id sorts behind it. Once all
    that came before it is published, each partition of each destination is told. To
    say it again changes nothing. A DAY that does not look like the one before, or is
    more than a year behind it, needs --force.
    """

    def run() -> int:
        units = _load(router, there=True)
        if not DAY_ID.fullmatch(day):
            raise DeclarationError(f"DAY: {printable(day)!r} is no id; give one as 2013-01-31")
        if units.days is None:
            raise DeclarationError(f"{router}: units: set days = true, and start again")
        if withdraw:
            if not reason:
                raise DeclarationError("--withdraw: give a --reason")
            units.days.withdraw(day, reason)
            print(f"the end of {day} is withdrawn")
            return DONE
        if not force and (doubt := units.days.state().doubt(day)) is not None:
            raise DeclarationError(f"DAY: {doubt}; give --force if it is right")
        inbounds = []
        for topic in source or units.sources:
            if topic not in units.sources:
                raise DeclarationError(
                    f"--source: there is no {printable(topic)!r}{closest(topic, units.sources)}"
                )
            inbound = units.inbound(topic)
            if not isinstance(inbound, Endable):
                raise DeclarationError(
                    f"source {topic!r}: only who writes it can end its day, by a line "
                    f'{{"{DAY}": "{day}"}} or the header {DAY}; name the others by --source'
                )
            inbounds.append(inbound)
        units.days.allow(day)
        for each in inbounds:
            asyncio.run(each.end_day(day))
        print(f"{day} ends in {', '.join(source or units.sources)}")
        return DONE

    return _status(run)


def _load(router: Path, *, there: bool = False) -> RouterUnits:
    units = load_units(router, there=there)
    log_to_stderr([units.url])
    for name in ("aiokafka", "aiormq", "rstream"):  # what they find is in our own lines
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return units


def _list(units: RouterUnits) -> int:
    bad_news = False
    for pair in units.ledger.pairs():
        chain, owner = units.ledger.chain(pair), units.ledger.owner_of(pair) or NOBODY
        for each in chain.segments:
            bad = each.start < each.end and not is_intact(units.store, each)
            # What nobody publishes stands until somebody does.
            bad_news |= bad or (each.start < each.end and owner == NOBODY)
            word = "DAMAGED" if bad else f"{each.end - each.start} to publish"
            print(*pair, each.name, f"{each.start} to {each.end}", word, owner, sep="\t")
    if parked := units.parking.streams():
        bad_news = True
        waiting = sum(each.waiting for each in parked)
        print(f"{counted(len(parked), 'parked stream')}, with {counted(waiting, 'message')}")
    if units.days is not None:
        state = units.days.state()
        print(f"last day: {state.last or 'none'}")
        if state.missing:
            bad_news = True
            print(f"the end of {printable(state.open or '')} waits for: {', '.join(state.missing)}")
    return BAD_NEWS if bad_news else DONE


def _run(verb: str, router: Path, transport: str | None, metrics: str | None) -> int:
    def run() -> int:
        units = _load(router)
        names = units.consuming() if verb == "consume" else units.publishing()
        if transport is None and len(names) > 1:
            units.engine.dispose()
            command = [sys.executable, "-m", "sequitur", "route", verb, str(router), "--transport"]
            commands = {
                name: [*command, name, *_metrics(metrics, number)]
                for number, name in enumerate(names)
            }
            return run_until_stopped(lambda stopped: _processes(commands, stopped))
        name = transport or names[0]
        if name not in names:
            raise DeclarationError(f"there is no transport {name!r} to {verb}")
        holder = f"{socket.gethostname()}/{os.getpid()}"
        made = (units.consumers if verb == "consume" else units.publishers)(name, holder)
        pages = RoutePages(units, made, units.transports[name].kafka)

        async def work(stopped: asyncio.Event) -> None:
            async with pages.at(metrics):
                await _tasks(units, made, stopped)

        return run_until_stopped(work)

    return _status(run)


def _metrics(address: str | None, number: int) -> list[str]:
    """The option of one of several processes, whose ports follow each other."""
    if address is None:
        return []
    host, _, port = address.rpartition(":")
    return ["--metrics", f"{host}:{int(port) + number if int(port) else 0}"]


async def _processes(commands: Mapping[str, list[str]], stopped: asyncio.Event) -> None:
    """A process for each, which is started again when it ends by itself."""
    running = {name: spawn(command) for name, command in commands.items()}
    try:
        while not stopped.is_set():
            for name, process in running.items():
                if (status := process.poll()) is not None:
                    logger.error("the process of %s ended with %d; again", name, status)
                    running[name] = spawn(commands[name])
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), 1.0)
    finally:
        for process in running.values():
            process.terminate()
        until = time.monotonic() + STOP
        for name, process in running.items():
            try:
                await asyncio.to_thread(process.wait, max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                # What it has in hand is taken up by who owns it next.
                logger.error("the process of %s has not ended in %.0f s: it is killed", name, STOP)
                process.kill()
                await asyncio.to_thread(process.wait)


async def _tasks(
    units: RouterUnits, works: Mapping[str, OwnedWork], stopped: asyncio.Event
) -> None:
    tasks = [asyncio.create_task(_again(work)) for work in works.values()]
    logger.info("%d at work: %s", len(works), ", ".join(map(str, works.values())))
    try:
        await stopped.wait()
    finally:
        await end_tasks(*tasks)
        await units.routing.stop()


async def _again(work: OwnedWork) -> None:
    """Run one topic's work; what stops it stops no other one, and is tried again."""
    while True:
        try:
            await work.run(pause=0.05)
        except (SegmentError, PublishRefused) as error:
            work.failing = said(error)
            logger.error("%s; tried again every %.0f s", said(error), STOPPED)
        except BaseException as error:
            if _ends(error):
                raise
            work.failing = f"a fault of Sequitur's: {error!r}"
            logger.exception("a fault of Sequitur's")
        await asyncio.sleep(STOPPED)


def _ends(error: BaseException) -> bool:
    """Whether the process or the task is to end; else something that was called raised it."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


def _status(run: Callable[[], int]) -> int:
    try:
        return run()
    except (*MISTAKES, SegmentError, ValueError) as error:
        log_to_stderr()
        return cannot(error, logger)
