"""`sequitur dead-records`: list the records that a read store refused, and remove them."""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click

from sequitur.cli.group import Group
from sequitur.cli.options import DURATION, read_store_option
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.statuses import BAD_NEWS, DONE
from sequitur.materialize.open_sink import opened
from stores.sinks import Sink, StoreError
from stores.user import user_name
from topology.model.counted import counted
from topology.model.printable import printable

log = logging.getLogger("dead_records")


@click.group("dead-records", cls=Group)
def command() -> None:
    """List the records that a read store could not apply, and remove them.

    \b
    sequitur dead-records list --read-store sqlite:///s.db
    sequitur dead-records remove --read-store sqlite:///s.db --older-than 30d

    list ends with status 1 if any is kept. What is removed stays counted.
    """


def _place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what names the tables."""
    shadow = click.option("--shadow", help="Of these shadow tables, not of the live tables.")
    return read_store_option(required=True)(shadow(function))


@command.command("list")
@_place
@click.option("--show", type=int, default=5, show_default=True, help="Of the last.")
def list_(store: str, shadow: str | None, show: int) -> int:
    """Show how many there are, and the last of them."""
    return _status(store, shadow, lambda sink: _list(sink, show))


@command.command()
@_place
@click.option("--topic", help="Only those of this output topic.")
@click.option("--older-than", type=DURATION, help="Only what was refused so long ago.")
@click.option("--dry-run", is_flag=True, help="Say how many, and keep them.")
@click.option("--reason", default="", help="Why; it is kept with who said so.")
def remove(
    store: str, shadow: str | None, topic: str | None, older_than: float | None, dry_run: bool,
    reason: str,
) -> int:  # fmt: skip
    """Delete them; that they were dead stays counted."""
    return _status(store, shadow, lambda sink: _remove(sink, topic, older_than, dry_run, reason))


def _status(store: str, shadow: str | None, run: Callable[[Sink], int]) -> int:
    log_to_stderr([store])
    try:
        with opened(store, shadow) as sink:
            if not sink.progress():
                # "No dead record" would be said of a wrong address, too.
                raise StoreError(
                    "nothing was ever materialized into this read store: correct its address, or "
                    "look again when the materializer has run"
                )
            return run(sink)
    except MISTAKES as error:
        return cannot(error, log, store)


def _list(sink: Sink, show: int) -> int:
    counts = sink.dead_counts()
    for topic, partition, kept, removed in counts:
        dead = counted(kept, "dead record")
        print(f"{printable(topic)}/{partition}: {dead}, {removed:,} more removed")
    for removal in sink.removals(show):
        dead = counted(removal.number, "dead record")
        by, why = printable(removal.by, 200), printable(removal.why or "no reason given", 300)
        print(f"{_time(removal.at)}{dead} removed by {by}: {why}")
    for each in sink.last_dead(show):
        when = "" if each.at is None else _time(each.at)
        place = f"{printable(each.topic)}/{each.partition} offset {each.offset}"
        print(f"{when}{place}: {printable(each.reason, 300)}")
    kept = sum(each.kept for each in counts)
    if not kept:
        print("no dead record is kept")
    return BAD_NEWS if kept else DONE


def _time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ} "


def _remove(sink: Sink, topic: str | None, age: float | None, dry_run: bool, why: str) -> int:
    before = None if age is None else int(time.time() - age)
    number = sink.remove_dead(topic, before, dry_run=dry_run, by=user_name(), why=why)
    print(f"{counted(number, 'dead record')} {'would be ' if dry_run else ''}removed")
    return DONE
