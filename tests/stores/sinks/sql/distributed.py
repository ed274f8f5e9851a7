"""Batches of a PostgreSQL sink that are folded part by part, as Spark's executors do it."""

import pickle
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter

from stores.sinks import Applied, Batch, OnDead, OutputRecord
from stores.sinks.distributed import Fold, FoldedPart, NotDistributed
from stores.sinks.sql.postgres import PostgresSink


class DistributedPostgresSink(PostgresSink):
    """Folds each partition apart; what is not plain is applied at once, as a materializer does."""

    reasons: tuple[str, ...] = ()
    """Why batches were not folded apart."""

    def apply(
        self,
        records: Iterable[OutputRecord],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        records = list(records)
        try:
            return self.apply_distributed(in_parts(records), batch, on_dead)
        except NotDistributed as reason:
            self.reasons = (*self.reasons, str(reason))
            return super().apply(records, batch, on_dead)


def in_parts(records: Iterable[OutputRecord]) -> Callable[[Fold], list[FoldedPart]]:
    """What runs a fold on each partition of a batch, the last one first."""
    in_order = sorted(records, key=itemgetter(0, 1))
    parts = [list(part) for _, part in groupby(in_order, key=itemgetter(0, 1))]

    def run(fold: Fold) -> list[FoldedPart]:
        pickled = pickle.dumps(fold)
        folded = [pickle.loads(pickled)(part) for part in reversed(parts)]
        return FoldedPart.parsed(row for part in folded for row in part.rows())

    return run
