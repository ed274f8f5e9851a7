"""The options of a query, and how what it finds is shown."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click

from sequitur.cli.options import Reads, window
from stores.replay import CapturedMessage, Condition, Hole, Query
from topology.model.printable import printable

_LATEST = 253_402_300_799_000


def _ends(text: str) -> tuple[int | None, int | None]:
    low, dots, high = text.partition("..")
    if not dots or not (low or high):
        raise ValueError("write A..B, A.. or ..B")
    ends = int(low) if low else None, int(high) if high else None
    if low and high and int(low) > int(high):
        raise ValueError(f"nothing is from {low} to {high}; write the lower one first")
    return ends


_OPTIONS = (
    click.option("--topic", "topics", multiple=True, help="Captured there; repeatable."),
    click.option("--site", "sites", multiple=True, help="Published there first; repeatable."),
    click.option("--partition", "partitions", type=click.IntRange(0), multiple=True),
    click.option("--stream", "streams", multiple=True, help="Repeatable."),
    click.option("--sequences", type=Reads("A..B", _ends), help="Lowest and highest."),
    window("The record's time, at least.", "The record's time, below."),
    click.option(
        "--where",
        type=Reads("CONDITION", Condition.parse),
        multiple=True,
        help="FIELD=VALUE; also != < <= > >= ^= (begins with).",
    ),
    click.option("--text", help="The content has it."),
    click.option("--after", type=click.IntRange(0), default=0, help="Behind this id."),
    click.option("--through", type=click.IntRange(0), help="Up to this id."),
)


def query_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of a query; the command is given `query`."""

    @wraps(command)
    def run(
        *,
        sequences: tuple[int | None, int | None] | None,
        since: int | None,
        until: int | None,
        **given: Any,
    ) -> int:
        names = ("topics", "sites", "partitions", "streams", "where", "text", "after", "through")
        rest: dict[str, Any] = {name: given.pop(name) for name in names}
        query = Query(
            **rest,
            sequences=sequences or (None, None),
            since=None if since is None else since / 1000,
            until=None if until is None else until / 1000,
        )
        # As one that came from outside: its limits hold.
        return command(query=lambda: Query.from_json(query.to_json()), **given)

    for option in reversed(_OPTIONS):
        run = option(run)
    return run


def moment(milliseconds: int) -> str:
    """A time as people read it, in UTC."""
    if not 0 <= milliseconds <= _LATEST:
        return str(milliseconds)
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")


def line_of(message: CapturedMessage) -> str:
    """A message on a line, with tabs between, none of its text as it is."""
    sequence = "" if message.sequence is None else message.sequence
    stream = "-" if message.stream is None else f"{printable(message.stream, 60)}:{sequence}"
    fields = " ".join(f"{name}={printable(each, 60)}" for name, each in message.metadata.items())
    place = printable(message.position, 200)
    return "\t".join(
        (str(message.id), moment(message.time), place, stream, f"{message.size} B", fields)
    )


def as_json(message: CapturedMessage, *, content: bool = True) -> dict[str, Any]:
    """A message for a program: texts where it is UTF-8, else bytes as hexadecimal digits."""
    found = {
        **{name: getattr(message, name) for name in ("id", "site", "topic", "partition", "offset")},
        **{name: getattr(message, name) for name in ("time", "captured", "origin", "position")},
        **{name: getattr(message, name) for name in ("stream", "sequence", "size")},
        "metadata": dict(message.metadata),
        "key": _text(message.key),
        "headers": [[name, _text(value)] for name, value in message.headers],
    }
    return {**found, "value": _text(message.value)} if content else found


def _text(data: bytes | None) -> str | dict[str, str] | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        assert data is not None
        return {"hex": data.hex()}


def print_json(found: Any) -> None:
    """Print a line of JSON, in ASCII: no text of a message is a terminal's command."""
    print(json.dumps(found).replace("\x7f", "\\u007f"))


def say_holes(holes: list[Hole]) -> None:
    """Name on stderr what the log no longer has of what was asked for."""
    for each in holes:
        print(f"gone: {printable(each, 200)}", file=sys.stderr)
