"""`sequitur inbox`: fill an inbox from Kafka or over HTTP, list and release what is parked."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from sqlalchemy import inspect

from sequitur.cli.group import Group
from sequitur.cli.options import (
    BROKER,
    COUNT,
    PERIOD,
    PORT,
    database_option,
    metrics_option,
    properties_option,
)
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.running import run_until_stopped, token
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.inbox.feed import Feed
from sequitur.inbox.interpret import Interpret, inspected, output_records, relayed
from sequitur.inbox.pages import InboxPages
from sequitur.inbox.server import serve as serve_http
from sequitur.kafka.login import kafka_login
from stores.db.engines import open_engine
from stores.db.urls import UrlError, existing, without_password
from stores.inbox import Inbox, InboxError, commands
from stores.inbox.tables import STREAMS
from stores.user import user_name
from topology.model.counted import counted
from topology.model.printable import printable

_LIMIT = click.IntRange(1, 1_000_000)

LATEST = 253_402_300_799
"""The last second of the year 9999, beyond which no time can be shown."""

logger = logging.getLogger("inbox")


@click.group("inbox", cls=Group)
def command() -> None:
    """Fill an inbox, list what it has, and release what is parked.

    \b
    sequitur inbox serve --database sqlite:///warehouse.sqlite
    sequitur inbox feed --database postgresql://… --topic orders
    sequitur inbox parked --database … --name warehouse

    gaps and parked end with status 1 where they show something. serve and feed wait
    for a database or a broker that is away.
    """


def _inbox(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names an inbox."""
    name = click.option("--name", default="default", show_default=True, help="Of the inbox.")
    return database_option("the consumer's database")(name(function))


def _limit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add how many lines are shown."""
    return click.option(
        "--limit", type=_LIMIT, default=100, show_default=True, help="Lines, at most."
    )(function)


def _stream(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names a stream, and the reason."""
    function = click.option("--reason", default="", help="Why; it is kept with who said so.")(
        function
    )
    topic, stream = (click.option(name, required=True) for name in ("--topic", "--stream"))
    return topic(stream(function))


@command.command()
@_inbox
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=PORT, default=7070, show_default=True, help="Port to listen on.")
@click.option(
    "--max-gap",
    type=COUNT,
    default=10_000,
    show_default=True,
    help="Largest distance of a sequence behind a gap.",
)
@metrics_option
def serve(database: str, name: str, host: str, port: int, max_gap: int, metrics: str | None) -> int:
    """Take messages in over HTTP.

    Who sends shows the token of the environment variable DELIVERY_TOKEN.
    """

    def run() -> int:
        secret = token()
        inbox = Inbox(open_engine(database), name, max_gap=max_gap)

        async def work(stopped: asyncio.Event) -> None:
            logger.info("inbox %s at http://%s:%d", inbox.name, host, port)
            pages = InboxPages(inbox)
            async with pages.at(metrics):
                await serve_http(inbox, secret, host, port, stopped, noted=pages.received)

        return run_until_stopped(work)

    return _status(database, run)


@command.command()
@_inbox
@click.option("--topic", multiple=True, required=True, help="To read; repeatable.")
@click.option("--inspector", metavar="MODULE:NAME", help="Default: key and headers of the relay.")
@click.option("--outputs", is_flag=True, help="The topics are output topics of views.")
@click.option("--ask-every", type=PERIOD, help="Ask the relay for what is missing.")
@click.option("--broker", type=BROKER, help="Kafka; default: SEQUITUR_BROKER.")
@properties_option
@metrics_option
def feed(
    database: str,
    name: str,
    topic: tuple[str, ...],
    inspector: str | None,
    outputs: bool,
    ask_every: float | None,
    broker: str | None,
    kafka_properties: Path | None,
    metrics: str | None,
) -> int:
    """Take messages in from Kafka."""

    def run() -> int:
        inbox = Inbox(open_engine(database), name, order="monotonic" if outputs else "contiguous")
        kafka = kafka_login(broker, kafka_properties)
        topics: dict[str, Interpret] = {}
        for each in topic:
            if outputs:
                topics[each] = output_records(each)
            elif inspector:
                topics[each] = inspected(inspector, each)
            else:
                topics[each] = relayed(each)

        async def work(stopped: asyncio.Event) -> None:
            feed = Feed(inbox, topics, kafka, ask=ask_every)
            async with InboxPages(inbox, feed).at(metrics):
                await feed.run(stopped)

        return run_until_stopped(work)

    return _status(database, run)


@command.command()
@_inbox
def counts(database: str, name: str) -> int:
    """Show how much there is; status 1 if any of it is parked, dead or behind a gap."""

    def run() -> int:
        print(found := commands.counts(_existing(database, name)))
        return BAD_NEWS if found.parked or found.dead or found.behind_gaps else DONE

    return _status(database, run)


@command.command()
@_inbox
@_limit
def gaps(database: str, name: str, limit: int) -> int:
    """Show what is missing; status 1 if anything is."""

    def run() -> int:
        found = commands.gaps(_existing(database, name), limit + 1)
        for gap in found[:limit]:
            print(
                f"{printable(gap.topic)} {printable(gap.stream)}: {gap.first} to {gap.last}, "
                f"since {_time(gap.since)}"
            )
        _tell_more(found[limit:])
        return BAD_NEWS if found else DONE

    return _status(database, run)


@command.command()
@_inbox
@_limit
def parked(database: str, name: str, limit: int) -> int:
    """Show the streams that were set aside; status 1 if any is."""

    def run() -> int:
        aside = commands.parked(_existing(database, name), limit + 1)
        for each in aside[:limit]:
            print(
                f"{printable(each.topic)} {printable(each.stream)}: sequence {each.sequence} "
                f"failed {counted(each.attempts, 'time')}, "
                f"{counted(each.messages, 'message waits', 'messages wait')}: "
                f"{printable(each.reason, 400)}"
            )
        _tell_more(aside[limit:])
        return BAD_NEWS if aside else DONE

    return _status(database, run)


@command.command()
@_inbox
@_stream
def redrive(database: str, name: str, topic: str, stream: str, reason: str) -> int:
    """Deliver a parked stream again, from the failed message on."""

    def run() -> int:
        inbox = _existing(database, name)
        commands.redrive(inbox, topic, stream, who=user_name(), why=reason)
        print(f"{printable(topic)} {printable(stream)} is delivered again")
        return DONE

    return _status(database, run)


@command.command()
@_inbox
@_stream
def unpark(database: str, name: str, topic: str, stream: str, reason: str) -> int:
    """Go on with a parked stream without the failed message."""

    def run() -> int:
        inbox = _existing(database, name)
        sequence = commands.unpark(inbox, topic, stream, who=user_name(), why=reason)
        print(f"{printable(topic)} {printable(stream)} goes on behind {sequence}, which is dead")
        return DONE

    return _status(database, run)


@command.command("commands")
@_inbox
@click.option("--limit", type=_LIMIT, default=50, show_default=True, help="Of the last.")
def commands_(database: str, name: str, limit: int) -> int:
    """Show who redrove and unparked what, and why; the last first."""

    def run() -> int:
        for each in commands.commands(_existing(database, name), limit):
            print(
                f"{_time(each.at)} {printable(each.who, 200)}: {each.command} "
                f"{printable(each.topic)} {printable(each.stream)} at sequence {each.sequence}: "
                f"{printable(each.why or 'no reason given', 400)}"
            )
        return DONE

    return _status(database, run)


def _tell_more(left_out: Sequence[object]) -> None:
    if left_out:
        print("and more: give a larger --limit")


def _time(milliseconds: int) -> str:
    found = datetime.fromtimestamp(min(max(milliseconds / 1000, 0), LATEST), UTC)
    return f"{found:%F %T} UTC"


def _existing(database: str, name: str) -> Inbox:
    """Open an inbox that is there; another one would be made, and say that nothing is wrong."""
    engine = open_engine(existing(database))
    if not inspect(engine).has_table(STREAMS.name):
        raise UrlError(f"{without_password(database)!r} has no inbox: see that it is right")
    inbox = Inbox(engine, name)
    if others := commands.others(inbox):
        there = ", ".join(printable(each, 200) for each in others)
        raise UrlError(f"there is no inbox {printable(repr(name), 200)} here; there are: {there}")
    return inbox


def _status(database: str, run: Callable[[], int]) -> int:
    log_to_stderr([database])
    try:
        return run()
    except InboxError as error:
        cannot(error, logger, database)
        return BAD_NEWS
    except (ValueError, *MISTAKES) as error:
        return cannot(error, logger, database)
