"""What it comes to when streams are made anew in the middle of a read store's live tables."""

from collections.abc import Iterable, Mapping

from stores.sinks.decoding import Mark, Stream, decode
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
        DataRefused: a record cannot be applied; the text names its stream.
    """
    reduction = Reduction(schema, _Nothing(), {})
    reduction.fold(records)
    if reduction.dead:
        topic, _, _, reason, value = reduction.dead[0]
        found = decode(topic, value)
        what = f"stream {found[0][2]!r}" if isinstance(found, tuple) else "a record"
        more = f" (the first of {len(reduction.dead)})" if len(reduction.dead) > 1 else ""
        raise DataRefused(f"{what} cannot be applied{more}: {reason}")
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
