"""What `two_phase = true` in a router's `[units]` needs: SQL on both sides of each rule."""

from collections.abc import Mapping
from typing import Any

from stores.segments import Inbound, Outbound
from stores.segments.one_transaction import check_sides, database
from stores.segments.transports.sql import InboxOutbound, LogInbound
from stores.two_phase import TwoPhaseError
from topology.model.errors import DeclarationError
from topology.model.printable import printable

_OF_SEGMENTS = ("segments", "backlog", "days", "window")


def sql_sides(
    topic: str, inbound: Inbound, outbounds: Mapping[str, Outbound]
) -> tuple[LogInbound, dict[str, InboxOutbound]]:
    """The message log of a source, and the inboxes.

    Args:
        topic: the source.
        inbound: its side of its transport.
        outbounds: transport → its other side, also that of errors.

    Raises:
        DeclarationError: which one is not of SQL, or which databases cannot share a transaction.
    """
    if not isinstance(inbound, LogInbound):
        raise DeclarationError(_not_sql(f"source {printable(topic)!r}"))
    inboxes = {name: at for name, at in outbounds.items() if isinstance(at, InboxOutbound)}
    for name in outbounds:
        if name not in inboxes:
            raise DeclarationError(_not_sql(f"transport {printable(name)!r}"))
    try:
        check_sides(inbound, inboxes)
    except TwoPhaseError as error:
        raise DeclarationError(f"source {printable(topic)!r}: {error}") from None
    return inbound, inboxes


def check_two_phase(
    units: Mapping[str, Any], inbounds: Mapping[str, Inbound], outbounds: Mapping[str, Outbound]
) -> None:
    """Refuse a file whose units cannot be one transaction each.

    Args:
        units: the table.
        inbounds: source → its side.
        outbounds: as in `sql_sides`.

    Raises:
        DeclarationError: what is wrong, and the remedy.
    """
    for each in _OF_SEGMENTS:
        if each in units:
            raise DeclarationError(
                f"units: {each} is of segments, and two_phase = true has none; leave out one"
            )
    for topic, inbound in inbounds.items():
        sql_sides(topic, inbound, outbounds)


def check_one_reader(inbounds: Mapping[str, Inbound]) -> None:
    """Refuse two sources that read one message log: each would take a part of it.

    Args:
        inbounds: source → its side.

    Raises:
        DeclarationError: which ones, and the remedy.
    """
    logs: dict[tuple[str, str], str] = {}
    for topic, inbound in inbounds.items():
        if not isinstance(inbound, LogInbound):
            continue
        other = logs.setdefault((database(inbound.engine), inbound.name), topic)
        if other != topic:
            raise DeclarationError(
                f"sources {printable(other)!r} and {printable(topic)!r} read one message log, and "
                "a log has one reader; give one source both rules"
            )


def _not_sql(what: str) -> str:
    return (
        f"{what} is not of kind sql, and two_phase = true makes one transaction of a message log "
        "and inboxes; leave it out, and segments carry the units across transports"
    )
