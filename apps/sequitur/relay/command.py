"""Move a message log to Kafka, or over HTTP to an inbox.

    python -m sequitur.relay.command kafka --log postgresql://orders@db.example.com/orders
    python -m sequitur.relay.command http --log sqlite:///orders.sqlite --to http://127.0.0.1:7070
    python -m sequitur.relay.command status --log sqlite:///orders.sqlite
    python -m sequitur.relay.command void --log … --topic orders --stream A-17 --first 4 --reason …

Several may run beside each other: one leads, and another takes over when it ends. SIGTERM and
Ctrl-C end it with status 0. While it runs it waits for a database or a receiver that is away; what
it cannot begin with, and what `void` cannot do, ends it with one line and status 2.
"""

import argparse
import asyncio
import logging
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from sequitur.cli.arguments import URL_HELP, Parser, broker, http_url, url
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.running import run_until_stopped, token
from sequitur.kafka.login import kafka_login
from sequitur.relay.http_link import HttpLink
from sequitur.relay.kafka_link import KafkaLink
from sequitur.relay.leadership import RelayConfig
from sequitur.relay.link import Link
from sequitur.relay.relay import Relay
from sequitur.relay.requests import requests
from sequitur.relay.status import status
from stores.db.engines import open_engine
from stores.db.urls import existing
from stores.locks.lease import Lease
from stores.outbox.log import MessageLog
from topology.model.printable import printable

logger = logging.getLogger("relay")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m sequitur.relay.command",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    kafka = commands.add_parser("kafka", help="move the log to Kafka")
    http = commands.add_parser("http", help="move the log to an inbox over HTTP")
    void = commands.add_parser("void", help="declare that messages never come")
    shown = commands.add_parser("status", help="who leads, and what of each topic waits")
    for command in (kafka, http, void, shown):
        add = command.add_argument
        where = f"URL of the log's database: sqlite:///… or postgresql://…; {URL_HELP}"
        add("--log", type=url, required=True, help=where)
        add("--name", default="sequitur", help="of the log (default: %(default)s)")
        add("--schema", help="of the log, in PostgreSQL")
    for command in (kafka, http, shown):
        named = "name of the relays that stand in for each other; default: the log's"
        command.add_argument("--relay", help=named)
    for command in (kafka, http):
        add = command.add_argument
        add("--lease", type=float, default=5.0, help="seconds that a lease holds (%(default)s)")
        add("--page", type=int, default=4000, help="messages at a time (%(default)s)")
        add("--acknowledged", type=float, default=20.0, help="seconds to wait for (%(default)s)")
        add("--keep", type=float, default=0.0, help="seconds to keep what is acknowledged (0)")
    kafka.add_argument("--broker", type=broker, help="host:port; default: SEQUITUR_BROKER")
    kafka.add_argument("--kafka-properties", type=Path, help="file of client properties")
    kafka.add_argument("--requests", action="append", default=[], metavar="TOPIC",
                       help="answer requests for messages of it, from TOPIC.resend")  # fmt: skip
    kafka.add_argument("--view", action="append", default=[], metavar="TOPOLOGY.VIEW",
                       help="its requests, by ask(), are told what is void")  # fmt: skip
    http.add_argument(
        "--to", type=http_url, required=True, help="URL of the inbox; its token: DELIVERY_TOKEN"
    )
    for name in ("--topic", "--stream", "--reason"):
        void.add_argument(name, required=True)
    void.add_argument("--first", type=int, required=True, help="sequence")
    void.add_argument("--last", type=int, help="sequence; default: the first")
    return parser


def _relay(options: argparse.Namespace, link: Link) -> Relay:
    engine = open_engine(options.log)
    log = MessageLog(options.name, schema=options.schema)
    holder = f"{socket.gethostname()}/{os.getpid()}"
    lease = Lease(engine, _lease(options), holder, options.lease)
    return Relay(engine, log, link, lease, keep=options.keep, config=RelayConfig(page=options.page))


def _name(options: argparse.Namespace) -> str:
    return str(options.relay or options.name)


def _lease(options: argparse.Namespace) -> str:
    """Its name; two logs of a database have two, though their relays have one."""
    log = options.name if options.schema is None else f"{options.schema}.{options.name}"
    named = _name(options)
    return f"relay {named}" if named == log else f"relay {named} of {log}"


def _link(options: argparse.Namespace, kafka: dict[str, Any]) -> Link:
    if options.command == "kafka":
        return KafkaLink(
            _name(options), kafka, acknowledged=options.acknowledged, views=options.view
        )
    return HttpLink(_name(options), options.to, token(), acknowledged=options.acknowledged)


def _run(options: argparse.Namespace) -> int:
    kafka: dict[str, Any] = {}
    if options.command == "kafka":
        kafka = kafka_login(options.broker, options.kafka_properties)

    async def work(stopped: asyncio.Event) -> None:
        relay = _relay(options, _link(options, kafka))
        asked = None
        if options.command == "kafka" and options.requests:
            asked = asyncio.create_task(requests(options.requests, kafka, relay.missing))
        try:
            await relay.run(stopped)
        finally:
            if asked is not None:
                asked.cancel()
                with suppress(asyncio.CancelledError):
                    await asked

    return run_until_stopped(work)


def _void(options: argparse.Namespace) -> int:
    log = MessageLog(options.name, schema=options.schema)
    last = options.first if options.last is None else options.last
    with open_engine(existing(options.log)).begin() as connection:
        deleted = log.declare_void(
            connection, options.topic, options.stream, options.first, last, options.reason
        )
    named = f"{printable(options.topic)} {printable(options.stream)}"
    print(f"{named}: {options.first} to {last} are void; {deleted} deleted")
    return 0


def _status(options: argparse.Namespace) -> int:
    log = MessageLog(options.name, schema=options.schema)
    for line in status(open_engine(existing(options.log)), log, _lease(options)):
        print(line)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    options = _parser().parse_args(arguments)
    urls = [options.log, getattr(options, "to", None)]
    log_to_stderr(urls)
    try:
        commands = {"void": _void, "status": _status}
        return commands.get(options.command, _run)(options)
    except (ValueError, *MISTAKES) as error:
        return cannot(error, logger, *urls)


if __name__ == "__main__":
    sys.exit(main())
