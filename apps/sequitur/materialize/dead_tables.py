"""Look at the dead records of a read store, and remove them: those that could not be applied.

    python -m sequitur.materialize.dead_tables list --store sqlite:///shop.sqlite
    python -m sequitur.materialize.dead_tables remove --store sqlite:///shop.sqlite --older-than 30

The exit status of `list` is 0 if no dead record is kept, 1 if some are; 2, with one line, if it
could not be looked. Removed records stay counted.
"""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from sequitur.cli.arguments import URL_HELP, Parser, url
from sequitur.cli.outcome import BAD_NEWS, DONE, MISTAKES, cannot, log_to_stderr
from sequitur.materialize.open_sink import opened
from stores.sinks import DAY, Sink
from topology.model.printable import printable

log = logging.getLogger("dead_tables")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit status."""
    options = _parser().parse_args(arguments)
    log_to_stderr([options.store])
    try:
        with opened(options.store, options.shadow) as sink:
            return {"list": _list, "remove": _remove}[options.command](sink, options)
    except MISTAKES as error:
        return cannot(error, log, options.store)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("dead_tables", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("list", help="how many there are, and the last of them")
    show.add_argument("--show", type=int, default=5, metavar="N", help="of the last (%(default)s)")
    remove = commands.add_parser("remove", help="delete them; that they were dead stays counted")
    remove.add_argument("--topic", help="only those of this output topic")
    remove.add_argument("--older-than", type=float, metavar="DAYS", help="only those")
    remove.add_argument("--dry-run", action="store_true", help="say how many, and keep them")
    for command in (show, remove):
        command.add_argument("--store", type=url, required=True, metavar="URL", help=URL_HELP)
        command.add_argument("--shadow", help="of these shadow tables, not of the live tables")
    return parser


def _list(sink: Sink, options: argparse.Namespace) -> int:
    counts = sink.dead_counts()
    for topic, partition, kept, removed in counts:
        print(f"{printable(topic)}/{partition}: {kept:,} dead records, {removed:,} more removed")
    for each in sink.last_dead(options.show):
        when = "" if each.at is None else f"{datetime.fromtimestamp(each.at, UTC):%Y-%m-%dT%H:%MZ} "
        place = f"{printable(each.topic)}/{each.partition} offset {each.offset}"
        print(f"{when}{place}: {printable(each.reason, 300)}")
    kept = sum(each.kept for each in counts)
    if not kept:
        print("no dead record is kept")
    return BAD_NEWS if kept else DONE


def _remove(sink: Sink, options: argparse.Namespace) -> int:
    days = options.older_than
    before = None if days is None else int(time.time() - days * DAY)
    number = sink.remove_dead(options.topic, before, dry_run=options.dry_run)
    print(f"{number:,} dead records {'would be' if options.dry_run else 'are'} removed")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
