"""`sequitur route parked|redrive|unpark`: streams that a router has set aside."""

import asyncio
import time
from pathlib import Path

import click

from sequitur.cli.options import PERIOD
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.route.control import who
from sequitur.route.loading import load_units, read_router
from sequitur.route.on_router import RouterAt, on_router
from sequitur.route.unit_routing import STAGE
from stores.segments.parking import RETRY, WITHOUT, ParkedUnits
from topology.diagnostics.explain.parked_streams import ParkedStream, ParkedStreams, parked_text
from topology.faust.inspection import parked as parked_in
from topology.model.counted import counted
from topology.model.errors import DeclarationError
from topology.model.printable import printable
from topology.routing import Release

_streams = click.argument("streams", nargs=-1)
_reason = click.option("--reason", default="", help="Why; it is kept with who said so.")
_INTO = " → "
"""Between the topic and the transport of what a destination refused, as in a `Pair`."""
_wait = click.option("--wait", type=PERIOD, default="60s", show_default=True)


class _OfStage:
    """What a router within Kafka has parked."""

    def __init__(self, at: RouterAt) -> None:
        self._at, self._app = at, at.app()

    def look(self) -> ParkedStreams:
        return asyncio.run(parked_in(self._app))

    def let_go(self, each: ParkedStream, without: bool, reason: str) -> None:
        topics = {each.name: each.topic for each in self._app.engine.topology.routes[STAGE].tables}
        place = topics[each.view], each.partition, each.stream, each.sequence
        asyncio.run(self._at.control().order(Release(*place, without, who(), reason), 1.0))


class _OfUnits:
    """What a router across transports has parked, in SQL."""

    def __init__(self, at: RouterAt) -> None:
        self._parking = load_units(Path(at.name), there=True).parking

    def look(self) -> ParkedStreams:
        found = [
            ParkedStream(
                *(_where(each), each.partition, each.stream, each.since, each.position),
                waiting=each.waiting,
                reason=each.reason,
            )
            for each in self._parking.streams()
        ]
        return ParkedStreams(round(time.time() * 1000), found)

    def let_go(self, each: ParkedStream, without: bool, reason: str) -> None:
        topic, _, transport = each.view.partition(_INTO)
        more = each.waiting, each.reason or "", transport
        one = ParkedUnits(topic, each.partition, each.stream, each.since, each.sequence, *more)
        self._parking.let_go(one, WITHOUT if without else RETRY, f"{who()}: {reason or '-'}")


def _where(each: ParkedUnits) -> str:
    return f"{each.topic}{_INTO}{each.transport}" if each.transport else each.topic


def _of(at: RouterAt) -> _OfStage | _OfUnits:
    across = at.name.endswith(".toml") and "units" in read_router(Path(at.name))
    return _OfUnits(at) if across else _OfStage(at)


@click.command()
@on_router
def parked(at: RouterAt) -> int:
    """List the parked streams of ROUTER, a file. Ends with status 1 if there are any.

    A stream is "=KEY", or "-" for what has no key; what failed is the offset. Units
    of work have "=STREAM" where a message names its stream, and DESTINATION before
    it of what that refused; what failed is then the place in the segment.
    """
    found = _of(at).look()
    print(parked_text(found, len(found.streams)))
    return BAD_NEWS if found.streams else DONE


@click.command()
@on_router
@_streams
@_reason
@_wait
@click.option("--all", "every", is_flag=True, help="All streams that are parked.")
def redrive(at: RouterAt, streams: tuple[str, ...], every: bool, reason: str, wait: float) -> int:
    """Route parked STREAMS of ROUTER again, in order, from what failed on.

    Whatever comes meanwhile is behind it. Ends with status 1 if one is parked still.
    """
    return _let_go(at, streams, reason, wait, every=every, without=False)


@click.command()
@on_router
@_streams
@_reason
@_wait
def unpark(at: RouterAt, streams: tuple[str, ...], reason: str, wait: float) -> int:
    """Let parked STREAMS of ROUTER go on without what failed.

    That goes to the malformed topic, and to errors of units of work. Ends with status
    1 if one is parked still, by what fails next.
    """
    return _let_go(at, streams, reason, wait, every=False, without=True)


def _let_go(
    at: RouterAt, streams: tuple[str, ...], reason: str, wait: float, *, every: bool, without: bool
) -> int:
    if bool(streams) == every:
        raise DeclarationError("name the streams as `sequitur route parked` has them")
    of = _of(at)
    chosen = [each for each in of.look().streams if every or each.stream in streams]
    if missing := {*streams} - {each.stream for each in chosen}:
        raise DeclarationError(f"not parked: {', '.join(map(printable, sorted(missing)))}")
    for each in chosen:
        of.let_go(each, without, reason)
    mine = {(each.view, each.partition, each.stream): each.since for each in chosen}
    until = time.monotonic() + wait
    while True:
        after = of.look()
        still = {(each.view, each.partition, each.stream): each for each in after.streams}
        left = [still[place] for place in mine if place in still]
        # Whatever failed again is parked anew, at another time.
        waiting = any(still[it].since == since for it, since in mine.items() if it in still)
        if not waiting or time.monotonic() > until:
            break
        time.sleep(0.5)
    print(f"{counted(len(chosen) - len(left), 'stream')} went on")
    if left:
        print(parked_text(ParkedStreams(after.now, left), len(left)))
    return BAD_NEWS if left else DONE
