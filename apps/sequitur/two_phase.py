"""`sequitur two-phase`: show and resolve what two-phase transactions have left in doubt."""

import logging
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from threading import Event

import click
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from sequitur.cli.group import Group
from sequitur.cli.options import PERIOD, URL, Reads
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.signals import take_signals
from sequitur.cli.statuses import BAD_NEWS, CANNOT, DONE
from stores.db.engines import open_engine
from stores.db.urls import existing, read_url, said
from stores.two_phase.decision_log import DecisionLog
from stores.two_phase.prepared import PreparedTransaction, end, is_gone, prepared
from stores.two_phase.recovery import recover

log = logging.getLogger("two_phase")

Participants = tuple[tuple[str, str], ...]
"""(name, URL) of each."""


@click.group("two-phase", cls=Group)
def command() -> None:
    """Show and resolve what two-phase transactions have left in doubt.

    \b
    sequitur two-phase list --decisions URL --participant log=URL
    sequitur two-phase resolve --decisions URL --participant log=URL --every 10s
    sequitur two-phase force GID --participant log=URL --rollback

    Producers resolve what they left when they start, and while they run; this is for
    what stays in doubt until then. Status 1: something is still in doubt. Status 2:
    something cannot be reached.
    """


def _participant(text: str) -> tuple[str, str]:
    """(name, URL) of NAME=URL."""
    name, equals, place = text.partition("=")
    if not equals or not re.fullmatch(r"[\w.-]+", name):
        raise ValueError("write NAME=URL, or NAME=@FILE for a file that it is in")
    return name, read_url(place)


_participants = click.option(
    "--participant",
    multiple=True,
    required=True,
    type=Reads("NAME=URL", _participant),
    help="A database by its producers' name; repeatable.",
)
_decisions = click.option(
    "--decisions", required=True, type=URL, help="The database of the decisions, or @FILE."
)


@command.command("list")
@_decisions
@_participants
def list_(decisions: str, participant: Participants) -> int:
    """Show what is prepared, and what was decided of it."""
    return _status(
        [decisions],
        participant,
        lambda engines, found: _list(_decided(decisions, engines), found),
    )


@command.command()
@_decisions
@_participants
@click.option("--every", type=PERIOD, help="Do it again, until SIGTERM.")
def resolve(decisions: str, participant: Participants, every: float | None) -> int:
    """Commit or roll back what is prepared, by what was decided."""
    return _status(
        [decisions],
        participant,
        lambda engines, found: _resolve(_decided(decisions, engines), found, every),
    )


@command.command()
@_participants
@click.argument("gid")
@click.option("--commit/--rollback", default=None, help="How to end it; one is required.")
def force(participant: Participants, gid: str, commit: bool | None) -> int:
    """End a transaction whose decisions are lost, at your own risk.

    GID: the transaction, as list shows it.
    """
    if commit is None:
        raise click.UsageError("give --commit or --rollback")
    return _status([], participant, lambda _, found: _force(gid, found, commit=commit))


def _status(
    decisions: list[str],
    participant: Participants,
    run: Callable[[ExitStack, dict[str, Engine]], int],
) -> int:
    names = [name for name, _ in participant]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(f"--participant {name} is given twice; give each name once")
    urls = [*decisions, *(url for _, url in participant)]
    log_to_stderr(urls)
    try:
        with ExitStack() as engines:
            return run(engines, {name: _engine(url, engines) for name, url in participant})
    except MISTAKES as error:
        return cannot(error, log, *urls)
    except KeyboardInterrupt:
        return DONE


def _decided(place: str, engines: ExitStack) -> DecisionLog:
    """The decisions of producers; a mistyped place is refused rather than made."""
    return DecisionLog(_engine(existing(place), engines), create=False)


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
    take_signals(stop, log)
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
