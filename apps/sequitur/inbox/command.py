"""Fill an inbox from Kafka or over HTTP; look at it, and release what is parked.

python -m sequitur.inbox.command serve --store sqlite:///warehouse.sqlite
python -m sequitur.inbox.command feed --store postgresql://… --topic orders
python -m sequitur.inbox.command parked --store … --name warehouse
python -m sequitur.inbox.command redrive --store … --topic orders --stream A-17

The exit status is 0 when it is done or was told to stop, 1 where `gaps` or `parked` shows
something, or the stream to release is not parked, and 2, with one line, for what could not be done.
`serve` and `feed` wait, while they run, for a database or a broker that is away.
"""

import argparse
import asyncio
import logging
import sys
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import inspect

from sequitur.cli.arguments import URL_HELP, Parser, broker, url
from sequitur.cli.outcome import BAD_NEWS, DONE, MISTAKES, cannot, log_to_stderr
from sequitur.cli.running import run_until_stopped, token
from sequitur.inbox.feed import Feed
from sequitur.inbox.interpret import Interpret, inspected, output_records, relayed
from sequitur.inbox.server import serve
from sequitur.kafka.login import kafka_login
from stores.db.engines import open_engine
from stores.db.urls import UrlError, existing, without_password
from stores.inbox.commands import counts, gaps, parked, redrive, unpark
from stores.inbox.inbox import Inbox, InboxError
from stores.inbox.tables import STREAMS
from topology.model.printable import printable

LATEST = 253_402_300_799
"""The last second of the year 9999, beyond which no time can be shown."""

logger = logging.getLogger("inbox")

_HELP = {
    "serve": "take messages in over HTTP",
    "feed": "take messages in from Kafka",
    "counts": "how much there is",
    "gaps": "what is missing",
    "parked": "the streams that were set aside",
    "redrive": "deliver a parked stream again, from the failed message on",
    "unpark": "go on with a parked stream without the failed message",
}


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m sequitur.inbox.command",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    made = {name: commands.add_parser(name, help=text) for name, text in _HELP.items()}
    for command in made.values():
        where = f"URL of the consumer's database; {URL_HELP}"
        command.add_argument("--store", type=url, required=True, help=where)
        command.add_argument("--name", default="default", help="its name (%(default)s)")
    for name in ("redrive", "unpark"):
        made[name].add_argument("--topic", required=True)
        made[name].add_argument("--stream", required=True)
    serving, feeding = made["serve"], made["feed"]
    serving.add_argument("--host", default="127.0.0.1", help="default: %(default)s")
    serving.add_argument("--port", type=int, default=7070, help="default: %(default)s")
    serving.add_argument("--max-gap", type=int, default=10_000,
                         help="sequences that one may be beyond a gap (%(default)s)")  # fmt: skip
    feeding.add_argument("--topic", action="append", required=True, help="may be given again")
    feeding.add_argument("--inspector", help="module:name; default: key and headers of the relay")
    feeding.add_argument("--outputs", action="store_true", help="they are views' output topics")
    feeding.add_argument("--ask", type=float, metavar="SECONDS",
                         help="ask the relay for what is missing for so long")  # fmt: skip
    feeding.add_argument("--broker", type=broker, help="host:port; default: SEQUITUR_BROKER")
    feeding.add_argument("--kafka-properties", type=Path, help="file of client properties")
    return parser


def _serve(options: argparse.Namespace) -> int:
    secret = token()
    inbox = Inbox(open_engine(options.store), options.name, max_gap=options.max_gap)

    async def work(stopped: asyncio.Event) -> None:
        logger.info("inbox %s at http://%s:%d", inbox.name, options.host, options.port)
        await serve(inbox, secret, options.host, options.port, stopped)

    return run_until_stopped(work)


def _feed(options: argparse.Namespace) -> int:
    order = "monotonic" if options.outputs else "contiguous"
    inbox = Inbox(open_engine(options.store), options.name, order=order)  # type: ignore[arg-type]
    kafka = kafka_login(options.broker, options.kafka_properties)
    topics: dict[str, Interpret] = {}
    for topic in options.topic:
        if options.outputs:
            topics[topic] = output_records(topic)
        elif options.inspector:
            topics[topic] = inspected(options.inspector, topic)
        else:
            topics[topic] = relayed(topic)

    async def work(stopped: asyncio.Event) -> None:
        await Feed(inbox, topics, kafka, ask=options.ask).run(stopped)

    return run_until_stopped(work)


def _tell(options: argparse.Namespace) -> int:
    engine = open_engine(existing(options.store))
    # An inbox's tables are made where they are not there, and would say that nothing is wrong.
    if not inspect(engine).has_table(STREAMS.name):
        raise UrlError(f"{without_password(options.store)!r} has no inbox: see that it is right")
    inbox = Inbox(engine, options.name)
    match options.command:
        case "counts":
            print(counts(inbox))
        case "gaps":
            for gap in (found := gaps(inbox)):
                since = datetime.fromtimestamp(min(max(gap.since / 1000, 0), LATEST), UTC)
                print(
                    f"{printable(gap.topic)} {printable(gap.stream)}: {gap.first} to {gap.last}, "
                    f"since {since:%F %T} UTC"
                )
            return BAD_NEWS if found else DONE
        case "parked":
            for each in (aside := parked(inbox)):
                print(
                    f"{printable(each.topic)} {printable(each.stream)}: sequence {each.sequence} "
                    f"failed {each.attempts} times, {each.messages} messages wait: "
                    f"{printable(each.reason, 400)}"
                )
            return BAD_NEWS if aside else DONE
        case "redrive":
            redrive(inbox, options.topic, options.stream)
            print(f"{printable(options.topic)} {printable(options.stream)} is delivered again")
        case "unpark":
            sequence = unpark(inbox, options.topic, options.stream)
            named = f"{printable(options.topic)} {printable(options.stream)}"
            print(f"{named} goes on behind {sequence}, which is dead")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit status."""
    options = _parser().parse_args(arguments)
    log_to_stderr([options.store])
    commands = {"serve": _serve, "feed": _feed}
    try:
        return commands.get(options.command, _tell)(options)
    except InboxError as error:
        cannot(error, logger, options.store)
        return BAD_NEWS
    except (ValueError, *MISTAKES) as error:
        return cannot(error, logger, options.store)


if __name__ == "__main__":
    sys.exit(main())
