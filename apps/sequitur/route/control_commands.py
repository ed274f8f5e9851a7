"""`sequitur route serve|reload|status|formats|register|unregister`: a router as a process."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args
from uuid import uuid4

import click

from sequitur.cli.options import COUNT, PERIOD
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.kafka.login import worker_login
from sequitur.route.control import Control, ControlLog, control_of, controls, who
from sequitur.route.loading import load_rules
from sequitur.route.router_file import load_router
from topology.faust.inspection import CannotAnswer
from topology.model.errors import DeclarationError
from topology.model.printable import printable
from topology.routing import (
    ControlRecord,
    Detail,
    Endpoint,
    Listening,
    Propose,
    Register,
    Trace,
    Unregister,
)

logger = logging.getLogger("route")


def _orders(function: Callable[..., Any]) -> Callable[..., Any]:
    reason = click.option("--reason", default="", help="Why; it is kept in the control topic.")
    period = click.option(
        "--wait", type=PERIOD, default="60s", show_default=True, help="Until it is decided."
    )
    return controls(reason(period(function)))


@click.command()
@controls
@click.option("--dry-run", is_flag=True, help="Describe what would run, and end.")
def serve(router: str, dry_run: bool, broker: str | None, kafka_properties: Path | None) -> int:
    """Route within Kafka as ROUTER says, exactly once, until it is stopped.

    Start any number of them: they share the partitions, and agree on the rules.
    Environment: SEQUITUR_DATADIR and the other settings of workers.
    """

    def begin() -> int:
        file = load_router(Path(router))
        topology = file.topology()
        worker_login(broker or file.broker, kafka_properties)  # a mistake in it is told here
        if dry_run:
            print(topology.describe())
            return DONE
        environment = {**os.environ, "SEQUITUR_ROUTER": str(file.path.absolute())}
        if broker is not None:
            environment["SEQUITUR_ROUTER_BROKER"] = broker
        if kafka_properties is not None:
            environment["SEQUITUR_ROUTER_PROPERTIES"] = str(kafka_properties.absolute())
        words = ["-A", "sequitur.route.worker:app", "worker", "-l", "info", "--without-web"]
        sys.stdout.flush()
        os.execve(sys.executable, [sys.executable, "-m", "topology.faust", *words], environment)

    return done(begin)


@click.command()
@_orders
@click.argument("keymaps", nargs=-1)
def reload(
    router: str,
    keymaps: tuple[str, ...],
    reason: str,
    wait: float,
    broker: str | None,
    kafka_properties: Path | None,
) -> int:
    """Load KEYMAPS of ROUTER again, or all of its file; then all processes switch.

    ROUTER is the file, or the control topic of a stage. What uses a keymap pauses
    while it is loaded. Ends with status 1 if the old rules stay.
    """
    record = Propose(frozenset(keymaps), who=who(), why=reason)
    return _order(router, record, wait, broker, kafka_properties)


@click.command()
@_orders
@click.argument("endpoint")
@click.argument("destination")
@click.option("--format", "form", help="That it reads; default: whatever comes.")
@click.option("--lifetime", type=PERIOD, help="Make it a listener, until it is silent for so long.")
@click.option("--site", default="", help="Of the listener; default: the router's.")
@click.option("--unit", default="", help="Of the listener; default: the router.")
@click.option("--only", is_flag=True, help="It gets broadcasts alone.")
def register(
    router: str,
    endpoint: str,
    destination: str,
    form: str | None,
    lifetime: float | None,
    site: str,
    unit: str,
    only: bool,
    reason: str,
    wait: float,
    broker: str | None,
    kafka_properties: Path | None,
) -> int:
    """Register ENDPOINT, which reads what goes to DESTINATION in a format of its own.

    Its topic is <topic of the destination>.<endpoint>; an endpoint that is called as
    its destination reads the destination's topic. With --lifetime it is a listener,
    which gets broadcasts too, and is to be registered again in time, unless it runs
    as `sequitur route listen`. Ends with status 1 if refused.
    """

    def record() -> ControlRecord:
        if lifetime is None and (site or unit or only):
            raise DeclarationError("--site, --unit, --only: give a listener's --lifetime, too")
        listening = None
        if lifetime is not None:
            listening = Listening(lifetime, uuid4().hex, site, unit, only=only)
        return Register(Endpoint(endpoint, destination, form, listening), who(), reason)

    return _order(router, record, wait, broker, kafka_properties)


@click.command()
@_orders
@click.argument("endpoint")
def unregister(
    router: str,
    endpoint: str,
    reason: str,
    wait: float,
    broker: str | None,
    kafka_properties: Path | None,
) -> int:
    """Let ENDPOINT read nothing any more. Ends with status 1 if refused."""
    record = Unregister(endpoint, who(), reason)
    return _order(router, record, wait, broker, kafka_properties)


@click.command()
@controls
@click.argument("detail", type=click.Choice(get_args(Detail)))
@click.option("--every", type=COUNT, default=1, show_default=True, help="Of so many offsets one.")
@click.option("--reason", default="", help="Why; it is kept in the control topic.")
def trails(
    router: str,
    detail: Detail,
    every: int,
    reason: str,
    broker: str | None,
    kafka_properties: Path | None,
) -> int:
    """Write trails of messages from now on, in all processes of ROUTER.

    fired has the rules that fired, all has keys and reasons too, none writes none.
    They go to the log, or to the topic that the stage names.
    """
    record = Trace(detail, every, who(), reason)
    return _order(router, record, 1.0, broker, kafka_properties)


@click.command()
@controls
def formats(router: str, broker: str | None, kafka_properties: Path | None) -> int:
    """List who reads which format, and what is made for whom.

    ROUTER is the file. What all endpoints share is made once, after routing.
    """

    def look() -> int:
        file = load_router(Path(router))
        log = asyncio.run(control_of(router, broker, kafka_properties).read())
        rules = load_rules(file.path)
        rules = rules.with_endpoints(rules.number, log.agreement.endpoints.values())
        for source, plan in rules.plans(rules.formats).items():
            after = " → ".join(plan.after) or "nothing"
            print(f"{source}: {plan.start} after routing; for all: {after}")
            for name, users in plan.users.items():
                chain = " → ".join(plan.chains[name]) or "as it is"
                print(f"  {name}: {', '.join(users)}; {chain}")
        for name in rules.retired(rules.formats):
            print(f"nobody uses {name}")
        return DONE

    return done(look)


@click.command()
@controls
def status(router: str, broker: str | None, kafka_properties: Path | None) -> int:
    """Say which rules ROUTER routes by, and whether its processes agree.

    Ends with status 1 where a load was refused or hangs, there are no rules or no
    processes, one is silent, or the control topic has records that are none.
    """

    def look() -> int:
        log = asyncio.run(control_of(router, broker, kafka_properties).read(listen=True))
        return _told(log)

    return done(look)


def _told(log: ControlLog) -> int:
    at, bad = log.agreement, False
    version = f"rules {at.version}, digest {at.digest[:12]}" if at.version else "no rules yet"
    print(version)
    for each in sorted(at.processes):
        heard = "heard" if each in log.heard else "silent"
        said = log.said.get(each, {})
        version, dropped = said.get("version"), said.get("trails_dropped") or 0
        more = f", {dropped} trails dropped" if dropped else ""
        print(f"  process {printable(each)}: {heard}, routes by rules {version}{more}")
    if at.trace.detail != "none":
        print(f"  trails: {at.trace.detail}, of each {at.trace.every}. offset")
    for endpoint in at.endpoints.values():
        form, own = endpoint.format or "it is", endpoint.listening
        kind = "endpoint" if own is None else "listener"
        more = "" if own is None else f"; {own}"
        print(f"  {kind} {endpoint.name}: {endpoint.destination} as {form}{more}")
    if (last := log.orders[-1] if log.orders else None) is not None:
        by, why = (printable(getattr(last, each), 200) for each in ("who", "why"))
        print(f"  last order: {type(last).__name__.lower()} by {by or 'unknown'}: {why or '-'}")
    if at.proposal is not None:
        missing = sorted(at.processes - at.proposal.loaded.keys())
        names = ", ".join(map(printable, missing)) or "a process"
        stale = ", ".join(map(printable, sorted(at.proposal.stale))) or "no keymap is stale"
        print(f"  rules {at.proposal.version} are being loaded ({stale}) by {names}")
    wrongs = [
        (not at.version, "there are no rules"),
        (not at.processes, "no process runs"),
        (at.refused is not None, at.refused),
        (at.proposal is not None, "a version is not decided"),
        (bool(log.strange), f"{log.strange} records of the control topic are none"),
        *((True, f"process {printable(each)} is silent") for each in log.silent()),
    ]
    for wrong, told in wrongs:
        if wrong:
            bad = True
            print(f"WRONG: {told}")
    return BAD_NEWS if bad else DONE


def _order(
    router: str,
    record: ControlRecord | Callable[[], ControlRecord],
    wait: float,
    broker: str | None,
    properties: Path | None,
) -> int:
    def give() -> int:
        made = record() if callable(record) else record
        control: Control = control_of(router, broker, properties)
        log, version = asyncio.run(control.order(made, wait))
        at = log.agreement
        if isinstance(made, Trace):
            print(f"trails: {made.detail}")
            return DONE
        if at.version >= version:
            print(f"rules {at.version} are decided, by {len(at.processes)} processes")
            return DONE
        if at.proposal is not None:
            print(f"rules {version} are not decided after {wait:.0f} s; see sequitur route status")
            return BAD_NEWS
        print(at.refused or "the old rules stay")
        return BAD_NEWS

    return done(give)


def done(run: Callable[[], int]) -> int:
    """The status of a command, which says in one line why it cannot be carried out."""
    log_to_stderr()
    try:
        return run()
    except (*MISTAKES, CannotAnswer, ValueError) as error:
        return cannot(error, logger)
