"""How the second stage of a view with workers stands in a partition: a row beside its progress."""

from dataclasses import dataclass, field, fields

import orjson


@dataclass(slots=True)
class WorkStatus:
    """What the ordering manager of a partition says of itself.

    Attributes:
        halted: why it begins nothing more, None while it does.
        orders: the offset of the audit topic from which on orders of operators are heeded.
        failed: events that the error policy passed over.
        dead: events that went to the dead topic from there.
        unrouted: messages that no rule gave a destination.
        malformed: messages that are no events.
        written: outputs; None where an earlier version, which did not count them, has run.
        when: of this report (ms).
        running: events that are with a worker.
        staged: events that are done and wait for their turn.
        waiting: events that are read and not begun.
        paused: whether reading pauses, as too much is in hand.
        away: what the view's database said, while it is away.
        counts: what happened, as in `CommitCounts`, over all runs of the partition.
    """

    halted: str | None = None
    orders: int = 0
    failed: int = 0
    dead: int = 0
    unrouted: int = 0
    malformed: int = 0
    written: int | None = 0
    when: int = 0
    running: int = 0
    staged: int = 0
    waiting: int = 0
    paused: bool = False
    away: str | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The row."""
        return orjson.dumps(self)


def decode_work_status(row: bytes | None) -> WorkStatus:
    """The status of a row, a new one where there is none. Raises ValueError."""
    if row is None:
        return WorkStatus()
    found = {"written": None, **orjson.loads(row)}
    status = WorkStatus(**{name: found[name] for name in found if name in _NAMES})
    numbers = (
        status.orders, status.failed, status.dead, status.unrouted, status.malformed, status.when,
        status.running, status.staged, status.waiting, status.written or 0, *status.counts.values(),
    )  # fmt: skip
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise ValueError("it is no status of workers")
    texts = isinstance(status.halted, str | None) and isinstance(status.away, str | None)
    if not texts or not isinstance(status.paused, bool):
        raise ValueError("it is no status of workers")
    return status


_NAMES = frozenset(each.name for each in fields(WorkStatus))
