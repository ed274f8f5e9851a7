"""`sequitur relay`: move a message log to Kafka, or over HTTP to an inbox."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import click
from sqlalchemy import Engine

from sequitur.cli.group import Group
from sequitur.cli.options import (
    BROKER,
    COUNT,
    DURATION,
    HTTP_URL,
    PERIOD,
    database_option,
    metrics_option,
    properties_option,
)
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.running import run_until_stopped, token
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.kafka.login import kafka_login
from sequitur.kafka.probe import BrokerProbe
from sequitur.relay.http_link import HttpLink
from sequitur.relay.kafka_link import KafkaLink
from sequitur.relay.leadership import RelayConfig
from sequitur.relay.link import Link
from sequitur.relay.pages import RelayPages
from sequitur.relay.relay import Relay
from sequitur.relay.requests import requests
from sequitur.relay.status import status as status_of
from stores.db.engines import open_engine
from stores.db.urls import existing
from stores.locks.lease import Lease
from stores.outbox import MessageLog
from topology.model.counted import counted
from topology.model.ending import end_tasks
from topology.model.printable import printable

logger = logging.getLogger("relay")


@click.group("relay", cls=Group)
def command() -> None:
    """Move a message log to Kafka, or over HTTP to an inbox.

    \b
    sequitur relay kafka --database postgresql://orders@db.example.com/orders
    sequitur relay http --database sqlite:///o.sqlite --to http://127.0.0.1:7070
    sequitur relay status --database sqlite:///o.sqlite

    Several may run beside each other: one leads, and another takes over when it
    ends. A relay waits for a database or a receiver that is away.
    """


def _log(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names a log."""
    log = click.option("--log", default="sequitur", show_default=True, help="Name of the log.")
    schema = click.option("--schema", help="Of the log, in PostgreSQL.")
    return database_option("the log's database")(log(schema(function)))


_lease_option = click.option(
    "--lease", type=PERIOD, default="5s", show_default=True, help="How long a lease holds."
)
_relay_option = click.option("--relay", help="Name of relays that stand in for each other.")


def _moves(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what the relays to both kinds of receivers take."""
    for option in (
        click.option("--keep", type=DURATION, default="0", show_default=True,
                     help="How long to keep what arrived."),
        click.option("--ack-timeout", type=PERIOD, default="20s", show_default=True,
                     help="How long to wait for an answer."),
        click.option("--batch", type=COUNT, default=4000, show_default=True,
                     help="Messages at a time."),
        _lease_option,
    ):  # fmt: skip
        function = option(function)
    return metrics_option(function)


@command.command()
@_log
@_relay_option
@_moves
@click.option("--broker", type=BROKER, help="Kafka; default: SEQUITUR_BROKER.")
@properties_option
@click.option("--answer", multiple=True, metavar="TOPIC", help="Answer TOPIC.resend; repeatable.")
@click.option(
    "--view", multiple=True, metavar="TOPOLOGY.VIEW", help="Its ask() hears what is void."
)
def kafka(**given: Any) -> int:
    """Move the log to Kafka."""
    return _status(_run, SimpleNamespace(command="kafka", **given))


@command.command()
@_log
@_relay_option
@_moves
@click.option("--to", type=HTTP_URL, required=True, help="URL of the inbox.")
def http(**given: Any) -> int:
    """Move the log to an inbox over HTTP.

    The environment variable DELIVERY_TOKEN has the token that the inbox knows.
    """
    return _status(_run, SimpleNamespace(command="http", **given))


@command.command()
@_log
@click.option("--topic", required=True)
@click.option("--stream", required=True)
@click.option("--reason", required=True)
@click.option("--first", type=int, required=True, help="Sequence.")
@click.option("--last", type=int, help="Sequence; default: the first.")
def void(**given: Any) -> int:
    """Declare that messages never come."""
    return _status(_void, SimpleNamespace(**given))


@command.command()
@_log
@_relay_option
@_lease_option
def status(**given: Any) -> int:
    """Show who leads, and what of each topic waits."""
    return _status(_show, SimpleNamespace(**given))


def _relay(options: SimpleNamespace, engine: Engine, log: MessageLog, link: Link) -> Relay:
    holder = f"{socket.gethostname()}/{os.getpid()}"
    lease = Lease(engine, _lease(options), holder, options.lease)
    return Relay(
        engine, log, link, lease, keep=options.keep, config=RelayConfig(page=options.batch)
    )


def _name(options: SimpleNamespace) -> str:
    return str(options.relay or options.log)


def _lease(options: SimpleNamespace) -> str:
    """Its name; two logs of a database have two, though their relays have one."""
    log = options.log if options.schema is None else f"{options.schema}.{options.log}"
    named = _name(options)
    return f"relay {named}" if named == log else f"relay {named} of {log}"


def _link(options: SimpleNamespace, kafka: dict[str, Any]) -> Link:
    if options.command == "kafka":
        return KafkaLink(
            _name(options), kafka, acknowledged=options.ack_timeout, views=options.view
        )
    return HttpLink(_name(options), options.to, token(), acknowledged=options.ack_timeout)


def _run(options: SimpleNamespace) -> int:
    kafka: dict[str, Any] = {}
    if options.command == "kafka":
        kafka = kafka_login(options.broker, options.kafka_properties)

    async def work(stopped: asyncio.Event) -> None:
        engine, log = open_engine(options.database), MessageLog(options.log, schema=options.schema)
        link = _link(options, kafka)
        relay = _relay(options, engine, log, link)
        if isinstance(link, KafkaLink):
            link.leads = relay.still_leads
        pages = RelayPages(relay, engine, log, BrokerProbe(kafka) if kafka else None)
        asked = None
        if options.command == "kafka" and options.answer:
            asked = asyncio.create_task(requests(options.answer, kafka, relay.missing))
        try:
            async with pages.at(options.metrics):
                await relay.run(stopped)
        finally:
            if asked is not None:
                await end_tasks(asked)
                if not asked.cancelled():
                    asked.result()

    return run_until_stopped(work)


def _void(options: SimpleNamespace) -> int:
    log = MessageLog(options.log, schema=options.schema)
    last = options.first if options.last is None else options.last
    with open_engine(existing(options.database)).begin() as connection:
        deleted = log.declare_void(
            connection, options.topic, options.stream, options.first, last, options.reason
        )
    named = f"{printable(options.topic)} {printable(options.stream)}"
    print(
        f"{named}: sequences {options.first} to {last} void, {counted(deleted, 'message')} deleted"
    )
    return DONE


def _show(options: SimpleNamespace) -> int:
    log = MessageLog(options.log, schema=options.schema)
    engine = open_engine(existing(options.database))
    found = status_of(engine, log, _lease(options), options.lease)
    for line in found.lines:
        print(line)
    return DONE if found.well else BAD_NEWS


def _status(run: Callable[[SimpleNamespace], int], options: SimpleNamespace) -> int:
    urls = [options.database, getattr(options, "to", None)]
    log_to_stderr(urls)
    try:
        return run(options)
    except (ValueError, *MISTAKES) as error:
        return cannot(error, logger, *urls)
