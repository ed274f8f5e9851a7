"""Shadow tables: what they are called, and when they may replace the live ones."""

import re
from collections.abc import Iterable

from stores.sinks.columns import NAME_BYTES
from stores.sinks.errors import NoSuchTable, NotYet, StoreError
from stores.sinks.limits import TABLE_BYTES
from stores.sinks.records import Position

SHADOW_BYTES = 20
"""The longest name of a shadow."""
OLD = "old"
"""The shadow that the tables are kept as whose place another shadow took."""


def shadow_name(name: str, shadow: str | None) -> str:
    """What a table is called on a shadow, None being that of the live tables."""
    return name if shadow is None else f"{name}__{shadow}"


def name_bytes(shadow: str | None) -> int:
    """Return how many bytes a new table's name may have, so that the shadow's name fits behind it.

    Args:
        shadow: the shadow's name, None for the live tables, behind which a rebuild's has to fit.
    """
    return TABLE_BYTES if shadow is None else NAME_BYTES - len("__") - max(len(shadow), len(OLD))


def checked_shadow(name: str | None) -> str | None:
    """Check the name of a shadow to write, and return it.

    Args:
        name: the name, None for the live tables.

    Raises:
        StoreError: it cannot be one's name.
    """
    if name is not None and (
        not re.fullmatch("[a-z](_?[a-z0-9])*", name) or len(name) > SHADOW_BYTES or name == OLD
    ):
        raise StoreError(
            f"shadow {name!r}: the name of shadow tables has up to {SHADOW_BYTES} small ASCII "
            f"letters and digits, with single _ between them, and is not {OLD!r}, which is what a "
            "switch leaves"
        )
    return name


def check_caught_up(
    shadow: str, topics: Iterable[str], live: Iterable[Position], there: Iterable[Position]
) -> None:
    """Check that a shadow is as far as the live tables.

    Args:
        shadow: the shadow's name.
        topics: the output topics that it follows.
        live: the positions of the live tables.
        there: the positions of the shadow.

    Raises:
        NotYet: it is not.
    """
    topics = set(topics)
    ends = {(p.topic, p.partition): p.next_offset for p in there}
    others = sorted({topic for topic, _ in ends} - topics)
    if others:
        raise StoreError(
            f"shadow tables {shadow!r} also have records of {', '.join(others)}; switch them "
            "together, or the tables would be ahead of what is noted of those topics"
        )
    for p in live:
        end = ends.get((p.topic, p.partition), 0)
        if p.topic in topics and end < p.next_offset:
            raise NotYet(
                f"shadow tables {shadow!r} are not caught up: topic {p.topic!r} partition "
                f"{p.partition} is at offset {end} there, and at {p.next_offset} in the live "
                "tables; let them follow on"
            )


def not_caught_up(shadow: str, view: str, stream: str, there: int, live: int) -> NotYet:
    """Return the error for a stream that is not as far in a shadow as in the live tables.

    Args:
        shadow: the shadow's name.
        view: the stream's view.
        stream: the stream's id.
        there: its sequence in the shadow.
        live: its sequence in the live tables.
    """
    return NotYet(
        f"shadow tables {shadow!r} are not caught up: view {view!r} stream {stream!r} is at "
        f"sequence {there} there, and at {live} in the live tables; rebuild them from a history "
        "that has all events"
    )


def check_live(shadow: str | None) -> None:
    """Check that a sink writes the live tables, so that others can replace them.

    Args:
        shadow: the shadow that the sink writes, None for the live tables.

    Raises:
        StoreError: it writes a shadow.
    """
    if shadow is not None:
        raise StoreError(f"shadow tables {shadow!r} are no place to switch to; use the live sink")


def no_such_table(name: str, shadow: str | None) -> NoSuchTable:
    """Return what `rows` and `count` raise.

    Args:
        name: the table's name.
        shadow: the shadow that the sink writes, None for the live tables.
    """
    where = "the read store" if shadow is None else f"shadow {shadow!r}"
    return NoSuchTable(f"table {name!r}: {where} has no such table")
