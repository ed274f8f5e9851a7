"""`sequitur route parked|redrive|unpark`: streams that a router has set aside."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from sequitur.cli.options import PERIOD
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.kafka.login import worker_login
from sequitur.route.control import control_of, controls, who
from sequitur.route.control_commands import done
from sequitur.route.router_file import STAGE, load_router
from topology.diagnostics.explain.parked_streams import ParkedStreams, parked_text
from topology.faust import App, compile
from topology.faust.inspection import parked as parked_in
from topology.model.counted import counted
from topology.model.errors import DeclarationError
from topology.model.printable import printable
from topology.routing import Release


@click.command()
@controls
def parked(router: str, broker: str | None, kafka_properties: Path | None) -> int:
    """List the parked streams of ROUTER, a file. Ends with status 1 if there are any.

    A stream is "=KEY", or "-" for what has no key; what failed is the offset.
    """

    def look() -> int:
        found = asyncio.run(parked_in(_app(router, broker, kafka_properties)))
        print(parked_text(found, len(found.streams)))
        return BAD_NEWS if found.streams else DONE

    return done(look)


def _lets_go(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.argument("streams", nargs=-1),
        click.option("--reason", default="", help="Why; it is kept in the control topic."),
        click.option("--wait", type=PERIOD, default="60s", show_default=True),
    ):
        function = option(function)
    return controls(function)


@click.command()
@_lets_go
@click.option("--all", "every", is_flag=True, help="All streams that are parked.")
def redrive(router: str, streams: tuple[str, ...], every: bool, **given: Any) -> int:
    """Route parked STREAMS of ROUTER again, in order, from what failed on.

    Whatever comes meanwhile is behind it. Ends with status 1 if one is parked still.
    """
    return _let_go(router, streams, every=every, without=False, **given)


@click.command()
@_lets_go
def unpark(router: str, streams: tuple[str, ...], **given: Any) -> int:
    """Let parked STREAMS of ROUTER go on without what failed, which goes to the malformed topic.

    Ends with status 1 if one is parked still, by what fails next.
    """
    return _let_go(router, streams, every=False, without=True, **given)


def _let_go(
    router: str,
    streams: tuple[str, ...],
    *,
    every: bool,
    without: bool,
    reason: str,
    wait: float,
    broker: str | None,
    kafka_properties: Path | None,
) -> int:
    def give() -> int:
        if bool(streams) == every:
            raise DeclarationError("name the streams as `sequitur route parked` has them")
        app = _app(router, broker, kafka_properties)
        before = asyncio.run(parked_in(app))
        topics = {each.name: each.topic for each in app.engine.topology.routes[STAGE].tables}
        chosen = [each for each in before.streams if every or each.stream in streams]
        if missing := {*streams} - {each.stream for each in chosen}:
            raise DeclarationError(f"not parked: {', '.join(map(printable, sorted(missing)))}")
        control = control_of(router, broker, kafka_properties)
        for each in chosen:
            order = Release(
                topics[each.view], each.partition, each.stream, each.sequence, without,
                who(), reason,
            )  # fmt: skip
            asyncio.run(control.order(order, 1.0))
        mine = {(each.view, each.partition, each.stream): each for each in chosen}
        until, after = time.monotonic() + wait, before
        while True:
            after = asyncio.run(parked_in(app))
            still = [
                (each, mine[at])
                for each in after.streams
                if (at := (each.view, each.partition, each.stream)) in mine
            ]
            # Whatever failed again is parked anew, at another time.
            if all(now.since != then.since for now, then in still) or time.monotonic() > until:
                break
            time.sleep(0.5)
        left = [now for now, _ in still]
        print(f"{counted(len(chosen) - len(left), 'stream')} went on")
        if left:
            print(parked_text(ParkedStreams(after.now, left), len(left)))
        return BAD_NEWS if left else DONE

    return done(give)


def _app(router: str, broker: str | None, properties: Path | None) -> App:
    file = load_router(Path(router))
    return compile(file.topology(), **worker_login(broker or file.broker, properties))
