"""What it comes to when streams are made anew in the middle of a read store's live tables."""

from collections.abc import Iterable, Mapping

from stores.sinks.decoding import Mark, Stream
from stores.sinks.errors import DataRefused
from stores.sinks.records import OutputRecord
from stores.sinks.reduction import FEW, Reduction
from stores.sinks.schema import Schema


def fold_replacement(schema: Schema, records: Iterable[OutputRecord]) -> Reduction:
    """Fold records, whatever the store has of their streams; see `Sink.replace_streams`.

    The same records have the same result on the same schema.

    Args:
        schema: the tables that rows need.
        records: the row changes of whole streams.

    Raises:
        DataRefused: a record cannot be applied.
    """
    reduction = Reduction(schema, _Nothing(), {})
    reduction.fold(records)
    if reduction.dead:
        raise DataRefused(f"it cannot be applied: {reduction.applied.reason}")
    return reduction


class _Nothing:
    """What a reduction is told of a store that knows nothing yet."""

    at_once = FEW

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        return {}

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        return False

    def forgetting(self, topic: str) -> str:
        return ""
