"""`sequitur units`: serve a destination's units, look at them, and administer them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from sequitur.cli.group import Group
from sequitur.cli.options import (
    BROKER,
    COUNT,
    DURATION,
    HTTP_URL,
    PORT,
    metrics_option,
    properties_option,
)
from sequitur.cli.running import run_until_stopped
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.kafka.login import kafka_login
from sequitur.units.forward import forward
from sequitur.units.pages import UnitPages
from sequitur.units.paths import paths
from sequitur.units.process import status_of, units_token
from sequitur.units.work import work
from stores.units import (
    QueueSettings,
    ServerSettings,
    UnitAdministration,
    UnitError,
    UnitServer,
    forget_subscriber,
)
from stores.units.naming import checked_name
from stores.user import user_name
from topology.model.printable import printable


def _name(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """A unit's name: an empty one, as of a variable that is not set, is not the whole member."""
    try:
        return name if name is None else checked_name(name)
    except UnitError as error:
        raise click.BadParameter(str(error)) from None


@click.group("units", cls=Group)
def command() -> None:
    """Serve units of order, look at them, and administer them.

    \b
    sequitur units serve --destination orders --group billing
    sequitur units status --destination orders --group billing
    sequitur units redrive --destination orders --group billing --unit order-7

    Servers, consumers and administrators show the token of UNITS_TOKEN. status ends
    with status 1 if a unit is parked, paused or dead, or admitted by no consumer.
    """


command.add_command(forward)
command.add_command(paths)
command.add_command(work)


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names a subscriber of a destination, and how to reach Kafka."""
    for add in (
        properties_option,
        click.option("--broker", type=BROKER, help="Kafka; default: SEQUITUR_BROKER."),
        click.option("--group", required=True, help="The subscriber."),
        click.option("--destination", required=True, help="The topic."),
    ):
        function = add(function)
    return function


@command.command()
@_of
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=PORT, default=7082, show_default=True, help="Port to listen on.")
@click.option("--url", type=HTTP_URL, help="By which consumers reach it, behind a proxy.")
@click.option(
    "--lease",
    type=DURATION,
    default="10s",
    show_default=True,
    help="After which what a silent consumer held goes to another.",
)
@click.option(
    "--redelivery-limit", type=COUNT, default=5, show_default=True, help="Of one message."
)
@click.option(
    "--redelivery-delay",
    type=DURATION,
    default="0",
    show_default=True,
    help="Until a message that was rolled back comes again.",
)
@click.option(
    "--poisoned",
    type=click.Choice(["park", "dead_letter"]),
    default="park",
    show_default=True,
    help="What becomes of a unit over its limit.",
)
@click.option("--output", multiple=True, help="Topic that consumers may send to; repeatable.")
@click.option(
    "--unit-by",
    metavar="HOW",
    help="Names what has no unit: session, key, header:NAME, name:NAME, MODULE:FUNCTION.",
)
@metrics_option
def serve(
    destination: str,
    group: str,
    broker: str | None,
    kafka_properties: Path | None,
    host: str,
    port: int,
    url: str | None,
    lease: float,
    redelivery_limit: int,
    redelivery_delay: float,
    poisoned: Any,
    output: tuple[str, ...],
    unit_by: str | None,
    metrics: str | None,
) -> int:
    """Own members of a destination and hand out their messages."""

    def run() -> int:
        from sequitur.units.naming import naming_of

        settings = ServerSettings(
            destination,
            group,
            kafka_login(broker, kafka_properties),
            units_token(),
            host,
            port,
            url,
            lease,
            QueueSettings(
                redelivery_limit=redelivery_limit,
                redelivery_delay=redelivery_delay,
                poisoned=poisoned,
            ),
            naming=naming_of(unit_by) if unit_by else None,
            outputs=frozenset(output),
        )

        async def work(stopped: asyncio.Event) -> None:
            server = UnitServer(settings)
            async with UnitPages(server).at(metrics):
                await server.run(stopped)

        return run_until_stopped(work)

    return status_of(run)


@command.command()
@_of
@click.option("--unit", callback=_name, help="This one alone.")
def status(
    destination: str,
    group: str,
    broker: str | None,
    kafka_properties: Path | None,
    unit: str | None,
) -> int:
    """Show who holds what, since when, what waits, and what helps."""

    async def work(asked: UnitAdministration) -> int:
        bad = False
        there = await asked.members() if unit is None else None
        if there is None:
            there = [{"member": each} for each in await asked.homes(unit or "")]
            if not there:
                print(f"no member has anything of {printable(unit)}")
        for each in there:
            if unit is None:
                paused = ", paused" if each["paused"] else ""
                bad |= each["paused"]
                print(
                    f"member {each['member']}: {each['messages']} messages, "
                    f"{each['sessions']} sessions{paused}"
                )
            for found in await asked.units(each["member"], unit):
                bad |= found["marked"] or found["state"] in ("paused", "unadmitted")
                by = f" by {printable(found['session'])}" if found["session"] else ""
                why = f": {printable(found['reason'], 400)}" if found["reason"] else ""
                print(
                    f"  {printable(found['unit'])}: {found['state']}{by}, {found['waiting']} wait"
                    f"{why}; {found['helps']}"
                )
        return BAD_NEWS if bad else DONE

    return _asked(destination, group, broker, kafka_properties, work)


@command.command()
@_of
@click.option("--parked", is_flag=True, help="Delete its parked messages too.")
def forget(
    destination: str, group: str, broker: str | None, kafka_properties: Path | None, parked: bool
) -> int:
    """Forget a subscriber that is gone for good. Its servers have ended.

    Paths of units wait for all subscribers that are known.
    """

    def run() -> int:
        login = kafka_login(broker, kafka_properties)
        rows = asyncio.run(forget_subscriber(login, destination, group, parked=parked))
        print(f"{printable(group)} is forgotten: {rows} rows deleted")
        return DONE

    return status_of(run)


def _action(name: str, text: str, *options: Callable[..., Any]) -> None:
    """Add the command of an action."""

    def run(
        destination: str,
        group: str,
        broker: str | None,
        kafka_properties: Path | None,
        reason: str,
        unit: str | None = None,
        member: int | None = None,
        offset: tuple[int, ...] = (),
        to: str | None = None,
    ) -> int:
        async def work(asked: UnitAdministration) -> int:
            if unit is None and member is None:
                raise UnitError("name --unit, or --member")
            homes = [member] if member is not None else await asked.homes(unit or "")
            if not homes:
                raise UnitError(
                    f"no member has anything of {printable(unit)}: name the --member, which is "
                    f"{asked.member(unit or '')} for producers of Sequitur's"
                )
            if len(homes) != 1:
                raise UnitError(
                    f"unit {printable(unit)} is on {len(homes)} members: name the --member"
                )
            place = homes[0]
            told = {"unit": unit, "offsets": list(offset), "to": to, "reason": reason}
            given = {key: value for key, value in told.items() if value}
            answer = await asked.act(name, place, by=user_name(), **given)
            what = "the whole member" if unit is None else printable(unit)
            told_of = f"{len(answer['offsets'])} messages of " if "offsets" in answer else ""
            breaks = "; this breaks the unit's order" if answer.get("breaks_order") else ""
            print(f"{name}: {told_of}{what} of member {place}, on record{breaks}")
            return DONE

        return _asked(destination, group, broker, kafka_properties, work)

    function: Callable[..., Any] = run
    for add in (click.option("--reason", default="", help="For the record."), *options):
        function = add(function)
    command.command(name, help=text)(_of(function))


_UNIT = click.option("--unit", callback=_name, help="Its name.")
_MEMBER = click.option("--member", type=click.IntRange(0), help="The partition, if not the unit's.")
_OFFSET = click.option("--offset", type=click.IntRange(0), multiple=True, help="Repeatable.")
_UNGROUPED = click.option(
    "--offset", type=click.IntRange(0), multiple=True, help="Of an ungrouped message."
)
_action("park", "Set a unit aside with all that follows into it.", _UNIT, _MEMBER, _UNGROUPED)
_action("redrive", "Deliver a parked unit again, in order.", _UNIT, _MEMBER, _UNGROUPED)
_action("pause", "Deliver nothing new of a unit, or of a member.", _UNIT, _MEMBER)
_action("resume", "End a pause.", _UNIT, _MEMBER)
_action(
    "move",
    "Send messages to another topic; may break order.",
    *(_UNIT, _MEMBER, _OFFSET, click.option("--to", required=True, help="The topic.")),
)
_action("delete", "Delete messages; may break order.", _UNIT, _MEMBER, _OFFSET)


def _asked(
    destination: str,
    group: str,
    broker: str | None,
    properties: Path | None,
    work: Callable[[UnitAdministration], Awaitable[int]],
) -> int:
    async def ask() -> int:
        login = kafka_login(broker, properties)
        async with UnitAdministration(destination, group, login, units_token()) as administration:
            return await work(administration)

    return status_of(lambda: asyncio.run(ask()))
