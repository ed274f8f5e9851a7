"""What a handler yields: row changes for the read store, and messages for other topics."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from topology.errors import DeclarationError, HandlerError
from topology.names import checked_topic


@dataclass(slots=True)
class Upsert:
    """Insert the row `key` of `table`, or set the given columns of it.

    key: column → value; the row's primary key. values: column → value; others stay as they are.
    """

    table: str
    key: Mapping[str, Any]
    values: Mapping[str, Any]
    op: str = field(default="upsert", init=False)


@dataclass(slots=True)
class Delete:
    """Delete the row `key` of `table`; a row that is not there is no error."""

    table: str
    key: Mapping[str, Any]
    op: str = field(default="delete", init=False)


@dataclass(slots=True)
class Emit:
    """Send a message to `topic`. A value that is neither bytes nor None is written as JSON."""

    topic: str
    key: str | bytes | None
    value: Any
    headers: tuple[tuple[str, bytes], ...] = ()


RowChange = Upsert | Delete
Output = Upsert | Delete | Emit


def check_change(change: Upsert | Delete) -> None:
    """Raises HandlerError for a row change that no read store could apply."""
    # As nearly all are; a Mapping takes ten times as long to be known as one.
    if change.table.__class__ is str and change.key.__class__ is dict:
        values = change.key if change.__class__ is Delete else change.values  # type: ignore[union-attr]
        if change.table and change.key and values.__class__ is dict:
            return
    what = type(change).__name__
    if not isinstance(change.table, str) or not change.table:
        raise HandlerError(f"{what}(table={change.table!r}): name the table")
    if not isinstance(change.key, Mapping) or not change.key:
        raise HandlerError(
            f"{what}(table={change.table!r}, key={change.key!r}): "
            "give the row's key columns as {'column': value}"
        )
    if isinstance(change, Upsert) and not isinstance(change.values, Mapping):
        raise HandlerError(
            f"{what}(table={change.table!r}, values={change.values!r}): "
            "give the columns to set as {'column': value}"
        )


def check_message(message: Emit) -> None:
    """Raises HandlerError for a message that Kafka would not take."""
    try:
        checked_topic(message.topic)
    except DeclarationError as error:
        raise HandlerError(f"Emit: {error}") from None
    if not isinstance(message.key, str | bytes | None):
        raise HandlerError(f"Emit(topic={message.topic!r}): the key must be text, bytes or None")
    for header in message.headers:
        if not (
            isinstance(header, tuple)
            and len(header) == 2
            and isinstance(header[0], str)
            and isinstance(header[1], bytes | None)
        ):
            raise HandlerError(
                f"Emit(topic={message.topic!r}): headers are tuples of a text and bytes"
            )
