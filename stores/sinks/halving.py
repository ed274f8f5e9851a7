"""Batches with records that a read store refuses, which are found by halves; the rest goes on."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import itemgetter

from stores.sinks.errors import DataRefused
from stores.sinks.records import Applied, Batch, OnDead, OutputRecord
from stores.sinks.reduction import NOTHING

Refusals = Mapping[tuple[str, int, int], str]
"""(topic, partition, offset) → why a record is refused; see `Reduction`."""
Apply = Callable[[list[OutputRecord], Batch | None, OnDead | None, Refusals], Applied]
"""Applies a batch. Raises DataRefused where the store refuses a record that is not told yet."""


def apply_with_refused(
    apply: Apply, records: list[OutputRecord], batch: Batch | None, on_dead: OnDead | None
) -> Applied:
    """Apply a batch; of one that is refused, all but the records that are refused by themselves.

    Args:
        apply: what applies a batch or a part of it.
        records: in any order.
        batch: their batch, if it is noted.
        on_dead: takes the records that cannot be applied.

    Raises:
        DataRefused: a batch without records is refused.
    """
    try:
        return apply(records, batch, on_dead, NOTHING)
    except DataRefused:
        if not records:
            raise
    done = _apart(apply, sorted(records, key=itemgetter(0, 1, 2)), on_dead)
    if batch is not None:
        # Without records it would be taken for one that somebody else has applied.
        whole = batch if done.replayed == done.records else replace(batch, sparse=True)
        apply([], whole, None, NOTHING)
    return done


def _apart(apply: Apply, records: list[OutputRecord], on_dead: OnDead | None) -> Applied:
    """Apply a batch in halves and these in halves, to find the records that are refused.

    What was applied is not lost when it ends before the batch does: it is noted by position.
    """
    total = Applied()
    middle = len(records) // 2
    for part in filter(None, (records[:middle], records[middle:])):
        try:
            done = apply(part, None, on_dead, NOTHING)
        except DataRefused as refused:
            if len(part) == 1:
                done = apply(part, None, on_dead, {part[0][:3]: str(refused)})
            else:
                done = _apart(apply, part, on_dead)
        total.add(done)
    return total
