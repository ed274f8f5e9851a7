"""Whether what is given to `Topology.view` is right, and what it is where nothing is given."""

from collections.abc import Iterable

from topology.declaration.orders import StreamOrder
from topology.declaration.policies import (
    Advance,
    ErrorPolicy,
    Failing,
    Full,
    Gap,
    LateTopic,
    OnError,
    OnLate,
    Redeliver,
    Spill,
    Wait,
)
from topology.declaration.source import Source
from topology.declaration.starts import Closing, First, Start
from topology.model.errors import DeclarationError
from topology.model.names import plain_function
from topology.model.printable import printable
from topology.model.table import Table

SLOTS = 1_000_000
"""The most slots of a ring."""


def check_buffer(name: str, buffer: int) -> None:
    """Whether a ring may have so many slots. Raises DeclarationError."""
    whole = isinstance(buffer, int) and not isinstance(buffer, bool)
    if not whole or not 1 <= buffer <= SLOTS:
        raise DeclarationError(
            f"view {name!r}: buffer={buffer!r}; a ring has at least 1 slot, {SLOTS} at most"
        )


def checked_policies(
    name: str, gap: Gap | None, full: Full | None, late: OnLate | None, error: OnError | None
) -> tuple[Gap, Full, OnLate, OnError]:
    """The policies of a view, each the first of its choices unless given."""
    gap = Wait() if gap is None else gap
    full = Spill() if full is None else full
    late = LateTopic() if late is None else late
    error = Advance() if error is None else error
    for what, kind, value in (
        ("gap", Gap, gap),
        ("full", Full, full),
        ("late", OnLate, late),
        ("error", Failing, error),
    ):
        own = what == "error" and isinstance(value, ErrorPolicy) and not isinstance(value, type)
        if not own and not isinstance(value, kind):
            raise DeclarationError(f"view {name!r}: {what}={value!r}; use {kind.choices}")
    if isinstance(error, ErrorPolicy):
        given = f"view {name!r}: error={printable(repr(error))}: its method on_error"
        plain_function(given, error.on_error, "event", "error")
    return gap, full, late, error


def checked_start(name: str, start: Start | None) -> Start:
    """Where a view's streams begin: with the first number unless given."""
    start = First() if start is None else start
    if not isinstance(start, Start):
        raise DeclarationError(
            f"view {name!r}: start={start!r}; use first(), earliest_seen(after=…) or "
            "opened_by(kind, …)"
        )
    return start


def checked_kinds(view: str, accepts: Iterable[str] | None) -> frozenset[str] | None:
    """The kinds that a view handles, None for all."""
    if accepts is None:
        return None
    if isinstance(accepts, str):
        raise DeclarationError(
            f"view {view!r}: accepts={accepts!r} is one text; write {{{accepts!r}}}"
        )
    kinds = tuple(accepts) if isinstance(accepts, Iterable) else (None,)
    if not all(isinstance(kind, str) for kind in kinds):
        raise DeclarationError(
            f"view {view!r}: accepts={accepts!r}; give the kinds as texts, as in {{'OUT', 'IN'}}"
        )
    if not kinds:
        raise DeclarationError(
            f"view {view!r}: accepts={accepts!r}: it would handle nothing; name its kinds, or "
            "leave accepts out for all"
        )
    return frozenset(kinds)


def checked_monotonic(
    view: str, source: Source, gap: Gap | None, full: Full | None, start: Start | None
) -> Full:
    """What becomes of an event beyond the buffer of a monotonic source, where less is to choose."""
    name = source.name
    if gap is not None:
        raise DeclarationError(
            f"view {view!r}: gap={gap!r}, but source {name!r} is monotonic, which knows no gaps; "
            "leave gap out"
        )
    if isinstance(full, Redeliver):
        raise DeclarationError(
            f"view {view!r}: full={full!r}, but source {name!r} is monotonic: what is away for "
            "redelivery cannot settle; use spill() or halt()"
        )
    if start is not None and not isinstance(start, First):
        raise DeclarationError(
            f"view {view!r}: start={start!r}, but source {name!r} is monotonic: its streams begin "
            "with what has settled; leave start out"
        )
    return Spill() if full is None else full


def check_rebuilding(
    view: str,
    late: OnLate,
    start: Start,
    closing: Closing | None,
    full: Full,
    sequence: StreamOrder,
) -> None:
    """What is late for good cannot be put in its place by a rebuild. Raises DeclarationError."""
    if not late.rebuilds:
        return
    if start.opens:
        raise DeclarationError(
            f"view {view!r}: late={late!r} with start={start}: what comes below the opening event "
            "is late for good; use late_topic(), or another start"
        )
    if closing is not None:
        raise DeclarationError(
            f"view {view!r}: late={late!r} with closes=…: what comes behind the closing event is "
            "late for good, and a closed stream is forgotten; use late_topic()"
        )
    if isinstance(full, Redeliver) and sequence.settles:
        raise DeclarationError(
            f"view {view!r}: late={late!r} with full=redeliver(…) where sequences are monotonic: "
            "what is away when its stream passes it is not told from what was handled; use spill()"
        )


def checked_tables(view: str, tables: Iterable[Table]) -> tuple[Table, ...]:
    """The tables that a view declares."""
    declared = tuple(tables) if isinstance(tables, Iterable) else (None,)
    for table in declared:
        if not isinstance(table, Table):
            raise DeclarationError(
                f"view {view!r}: tables={tables!r}; give a list of Table(name, key=…, columns=…)"
            )
    return declared
