"""`sequitur units paths`: route units by path, look at where they live, and move them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import click

from sequitur.cli.group import Group
from sequitur.cli.options import BROKER, DURATION, HTTP_URL, PORT, properties_option
from sequitur.cli.running import run_until_stopped
from sequitur.cli.statuses import DONE
from sequitur.kafka.login import kafka_login
from sequitur.units.process import status_of, units_token
from stores.units import PathAdministration, PathServer, PathSettings
from stores.user import user_name
from topology.model.printable import printable


@click.group(cls=Group)
def paths() -> None:
    """Route a destination's units by path, and move them.

    \b
    sequitur units paths serve --destination orders
    sequitur units paths show --destination orders --unit order-7
    sequitur units paths move --destination orders --unit order-7 --to 2

    The service and who asks it have the token of UNITS_TOKEN.
    """


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names a destination, and how to reach Kafka."""
    for add in (
        properties_option,
        click.option("--broker", type=BROKER, help="Kafka; default: SEQUITUR_BROKER."),
        click.option("--destination", required=True, help="The topic."),
    ):
        function = add(function)
    return function


@paths.command()
@properties_option
@click.option("--broker", type=BROKER, help="Kafka; default: SEQUITUR_BROKER.")
@click.option("--destination", required=True, multiple=True, help="A topic; repeatable.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=PORT, default=7081, show_default=True, help="Port to listen on.")
@click.option("--url", type=HTTP_URL, help="By which producers reach it, behind a proxy.")
@click.option(
    "--lease",
    type=DURATION,
    default="10s",
    show_default=True,
    help="After which a silent producer has no route any more.",
)
def serve(
    destination: tuple[str, ...],
    broker: str | None,
    kafka_properties: Path | None,
    host: str,
    port: int,
    url: str | None,
    lease: float,
) -> int:
    """Choose where units live, and remember it. Several stand by for each other."""

    def run() -> int:
        login = kafka_login(broker, kafka_properties)
        settings = PathSettings(destination, login, units_token(), host, port, url, lease)
        return run_until_stopped(PathServer(settings).run)

    return status_of(run)


@paths.command()
@_of
@click.option("--unit", help="This one alone.")
def show(
    destination: str, broker: str | None, kafka_properties: Path | None, unit: str | None
) -> int:
    """Show on which member units live, who sends to them, and where they move to."""

    async def work(asked: PathAdministration) -> int:
        found = await asked.paths() if unit is None else {unit: await asked.path(unit)}
        for name, path in found.items():
            moves = f", moves to {path['target']}" if path["target"] is not None else ""
            print(
                f"{printable(name)}: member {path['member']}, {len(path['producers'])} producers"
                f"{moves}"
            )
        return DONE

    return _asked(destination, broker, kafka_properties, work)


@paths.command()
@_of
@click.option("--unit", required=True, help="Its name.")
@click.option("--to", type=click.IntRange(0), required=True, help="The member.")
@click.option("--reason", default="", help="For the log.")
def move(
    destination: str,
    broker: str | None,
    kafka_properties: Path | None,
    unit: str,
    to: int,
    reason: str,
) -> int:
    """Move a unit to another member, in order, while it is used."""

    async def work(asked: PathAdministration) -> int:
        await asked.move(unit, to, by=user_name(), reason=reason)
        print(f"unit {printable(unit)} lives on member {to}")
        return DONE

    return _asked(destination, broker, kafka_properties, work)


def _asked(
    destination: str,
    broker: str | None,
    properties: Path | None,
    work: Callable[[PathAdministration], Awaitable[int]],
) -> int:
    async def ask() -> int:
        login = kafka_login(broker, properties)
        async with PathAdministration(destination, login, units_token()) as administration:
            return await work(administration)

    return status_of(lambda: asyncio.run(ask()))
