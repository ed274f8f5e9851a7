"""`sequitur route serve|reload|status|formats|register|unregister`: a router as a process."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args
from uuid import uuid4

import click

from sequitur.cli.options import COUNT, PERIOD
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.route.control import ControlLog, who
from sequitur.route.loading import load_rules
from sequitur.route.on_router import RouterAt, on_router
from topology.model.counted import counted
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
from topology.routing.transformations import known


def _orders(function: Callable[..., Any]) -> Callable[..., Any]:
    reason = click.option("--reason", default="", help="Why; it is kept in the control topic.")
    period = click.option(
        "--wait", type=PERIOD, default="60s", show_default=True, help="Until it is decided."
    )
    return on_router(reason(period(function)))


@click.command()
@on_router
@click.option("--dry-run", is_flag=True, help="Describe what would run, and end.")
def serve(at: RouterAt, dry_run: bool) -> int:
    """Route within Kafka as ROUTER says, exactly once, until it is stopped.

    Start any number of them: they share the partitions, and agree on the rules.
    Environment: SEQUITUR_DATADIR and the other settings of workers.
    """
    app = at.app()  # a mistake in the file, or in the login, is told here
    if dry_run:
        print(app.engine.topology.describe())
        return DONE
    environment = {**os.environ, "SEQUITUR_ROUTER": str(Path(at.name).absolute())}
    if at.broker is not None:
        environment["SEQUITUR_ROUTER_BROKER"] = at.broker
    if at.properties is not None:
        environment["SEQUITUR_ROUTER_PROPERTIES"] = str(at.properties.absolute())
    words = ["-A", "sequitur.route.worker:app", "worker", "-l", "info", "--without-web"]
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, "-m", "topology.faust", *words], environment)


@click.command()
@_orders
@click.argument("keymaps", nargs=-1)
def reload(at: RouterAt, keymaps: tuple[str, ...], reason: str, wait: float) -> int:
    """Load KEYMAPS of ROUTER again, or all of its file; then all processes switch.

    ROUTER is the file, or the control topic of a stage. What uses a keymap pauses
    while it is loaded. Ends with status 1 if the old rules stay.
    """
    return _order(at, Propose(frozenset(keymaps), who=who(), why=reason), wait)


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
    at: RouterAt,
    endpoint: str,
    destination: str,
    form: str | None,
    lifetime: float | None,
    site: str,
    unit: str,
    only: bool,
    reason: str,
    wait: float,
) -> int:
    """Register ENDPOINT, which reads what goes to DESTINATION in a format of its own.

    Its topic is <topic of the destination>.<endpoint>; an endpoint that is called as
    its destination reads the destination's topic. With --lifetime it is a listener,
    which gets broadcasts too, and is to be registered again in time, unless it runs
    as `sequitur route listen`. Ends with status 1 if refused.
    """
    if lifetime is None and (site or unit or only):
        raise DeclarationError("--site, --unit, --only: give a listener's --lifetime, too")
    listening = None
    if lifetime is not None:
        listening = Listening(lifetime, uuid4().hex, site, unit, only=only)
    made = Endpoint(endpoint, destination, form, listening)
    return _order(at, Register(made, who(), reason), wait)


@click.command()
@_orders
@click.argument("endpoint")
def unregister(at: RouterAt, endpoint: str, reason: str, wait: float) -> int:
    """Let ENDPOINT read nothing any more. Ends with status 1 if refused."""
    agreed = asyncio.run(at.control().read()).agreement
    known(endpoint, (agreed.proposal or agreed).endpoints, at.name, "endpoint")
    return _order(at, Unregister(endpoint, who(), reason), wait)


@click.command()
@on_router
@click.argument("detail", type=click.Choice(get_args(Detail)))
@click.option("--every", type=COUNT, default=1, show_default=True, help="Of so many offsets one.")
@click.option("--reason", default="", help="Why; it is kept in the control topic.")
def trails(at: RouterAt, detail: Detail, every: int, reason: str) -> int:
    """Write trails of messages from now on, in all processes of ROUTER.

    fired has the rules that fired, all has keys and reasons too, none writes none.
    They go to the log, or to the topic that the stage names.
    """
    return _order(at, Trace(detail, every, who(), reason), 1.0)


@click.command()
@on_router
def formats(at: RouterAt) -> int:
    """List who reads which format, and what is made for whom.

    ROUTER is the file. What all endpoints share is made once, after routing.
    """
    log = asyncio.run(at.control().read())
    rules = load_rules(Path(at.name))
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


@click.command()
@on_router
def status(at: RouterAt) -> int:
    """Say which rules ROUTER routes by, and whether its processes agree.

    Ends with status 1 where a load was refused or hangs, there are no rules or no
    processes, one is silent, messages failed since it began, or the control topic has
    records that are none.
    """
    return _told(asyncio.run(at.control().read(listen=True)))


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
    if counts := log.counted():
        read, unrouted, failed = map(sum, zip(*counts, strict=True))
        print(f"  {read:,} messages: {unrouted:,} without a destination, {failed:,} failed")
    else:
        failed = 0
    for name, (count, rate) in sorted(log.fired().items(), key=lambda rule: -rule[1][0]):
        print(f"  rule {printable(name, 80)}: fired {count:,} times, {rate:,.1f} a second")
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
        (failed > 0, f"{counted(failed, 'message')} failed"),
        (bool(log.strange), f"{log.strange} records of the control topic are none"),
        *((True, f"process {printable(each)} is silent") for each in log.silent()),
    ]
    for wrong, told in wrongs:
        if wrong:
            bad = True
            print(f"WRONG: {told}")
    return BAD_NEWS if bad else DONE


def _order(router: RouterAt, record: ControlRecord, wait: float) -> int:
    log, version = asyncio.run(router.control().order(record, wait))
    if isinstance(record, Trace):
        print(f"trails: {record.detail}")
        return DONE
    if not version:
        print("nothing changes by it")
        return DONE
    if (then := log.outcome.get(version)) is None:
        print(f"rules {version} are not decided after {wait:.0f} s; see sequitur route status")
    elif then.refused is None:
        print(f"rules {then.version} are decided, by {len(then.processes)} processes")
        return DONE
    else:
        print(then.refused)
    return BAD_NEWS
