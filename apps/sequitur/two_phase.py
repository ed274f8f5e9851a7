"""Show and resolve what two-phase transactions have left in doubt.

    python -m sequitur.two_phase list --decisions URL --participant log=URL
    python -m sequitur.two_phase resolve --decisions URL --participant log=URL --every 10
    python -m sequitur.two_phase force GID --participant log=URL --rollback

Producers resolve what they left when they start, and while they run; this is for what stays in
doubt until then. SIGTERM and Ctrl-C end it with status 0; what is still in doubt at the end gives
status 1, and what cannot be reached status 2.
"""

import argparse
import logging
import re
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Event

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sequitur.cli.arguments import URL_HELP, Parser, url
from sequitur.cli.outcome import BAD_NEWS, CANNOT, DONE, MISTAKES, cannot, log_to_stderr
from stores.db.engines import open_engine
from stores.db.urls import said
from stores.two_phase.log import DecisionLog
from stores.two_phase.prepared import PreparedTransaction, end, is_gone, prepared
from stores.two_phase.recovery import recover

log = logging.getLogger("two_phase")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command says; return the exit status."""
    options = _parser().parse_args(arguments)
    urls = [getattr(options, "decisions", None), *(url for _, url in options.participant)]
    log_to_stderr(urls)
    try:
        with ExitStack() as engines:
            return _run(options, engines)
    except MISTAKES as error:
        return cannot(error, log, *urls)
    except KeyboardInterrupt:
        return DONE


def _run(options: argparse.Namespace, engines: ExitStack) -> int:
    participants = {name: _engine(url, engines) for name, url in options.participant}
    if options.command == "force":
        return _force(options.gid, participants, commit=options.commit)
    decisions = DecisionLog(_engine(options.decisions, engines))
    if options.command == "list":
        return _list(decisions, participants)
    return _resolve(decisions, participants, options.every)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("two_phase", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, does in (
        ("list", "show what is prepared, and what was decided of it"),
        ("resolve", "commit or roll back what is prepared, by what was decided"),
        ("force", "end a prepared transaction whose decisions are lost, at your own risk"),
    ):
        command = commands.add_parser(name, help=does, description=does)
        command.add_argument(
            "--participant",
            action="append",
            required=True,
            type=_participant,
            metavar="NAME=URL",
            help="a database that takes part, by the name that producers give it; may be repeated",
        )
        if name == "force":
            command.add_argument("gid", help="as `list` shows it")
            way = command.add_mutually_exclusive_group(required=True)
            way.add_argument("--commit", action="store_true")
            way.add_argument("--rollback", action="store_true")
        else:
            command.add_argument(
                "--decisions",
                required=True,
                type=url,
                metavar="URL",
                help=f"the database that keeps the decisions; {URL_HELP}",
            )
        if name == "resolve":
            command.add_argument(
                "--every",
                type=float,
                metavar="SECONDS",
                help="do it again and again, until SIGTERM or Ctrl-C",
            )
    return parser


def _participant(text: str) -> tuple[str, str]:
    """(name, URL) of NAME=URL."""
    name, equals, place = text.partition("=")
    if not equals or not re.fullmatch(r"[\w.-]+", name):
        raise argparse.ArgumentTypeError("write NAME=URL, or NAME=@FILE for a file that it is in")
    return name, url(place)


def _engine(place: str, engines: ExitStack) -> Engine:
    engine = open_engine(place)
    engines.callback(engine.dispose)
    return engine


def _list(decisions: DecisionLog, participants: dict[str, Engine]) -> int:
    status = DONE
    for name, engine in participants.items():
        try:
            found = prepared(name, engine)
        except SQLAlchemyError as error:
            log.error("participant %s cannot be reached: %s", name, said(error))
            status = CANNOT
            continue
        for one in found:
            outcome = decisions.outcome(one.transaction) if one.log == decisions.id else "foreign"
            print(_line(one, outcome))
            status = status or BAD_NEWS
    return status


def _line(one: PreparedTransaction, outcome: str) -> str:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.at))
    return f"{one.participant}\t{outcome}\t{at}\t{one.age:.0f} s\t{one.gid}"


def _resolve(decisions: DecisionLog, participants: dict[str, Engine], every: float | None) -> int:
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    while True:
        try:
            found = recover(decisions, participants)
        except SQLAlchemyError as error:
            if every is None:
                raise
            log.error("the decisions cannot be read: %s", said(error))
        else:
            for line in found.report():
                log.info("%s", line)
            if every is None:
                for one in (*found.open, *found.foreign):
                    print(_line(one, "open" if one in found.open else "foreign"))
                if found.unreachable:
                    return CANNOT
                return BAD_NEWS if found.open or found.foreign else DONE
        if stop.wait(every):
            return DONE


def _force(gid: str, participants: dict[str, Engine], *, commit: bool) -> int:
    for name, engine in participants.items():
        if any(one.gid == gid for one in prepared(name, engine)):
            try:
                ended = end(engine, gid, commit=commit)
            except Exception as error:
                if is_gone(error):
                    continue
                raise
            if ended:
                log.info("%s: %s in %s", gid, "committed" if commit else "rolled back", name)
                return DONE
    log.error("%s is not prepared in any of %s", gid, ", ".join(participants))
    return BAD_NEWS


if __name__ == "__main__":
    sys.exit(main())
