"""Batches of a PostgreSQL sink that are folded part by part, as Spark's executors do it."""

import pickle
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import itemgetter

from stores.sinks import Applied, Batch, OnDead, OutputRecord
from stores.sinks.distributed import Fold, FoldedPart
from stores.sinks.sql.postgres import PostgresSink
from tests.stores.sinks.apart import FoldsApart


class DistributedPostgresSink(FoldsApart, PostgresSink):
    """Folds each partition apart."""

    def apply_apart(
        self, records: list[OutputRecord], batch: Batch | None, on_dead: OnDead | None
    ) -> Applied:
        return self.apply_distributed(in_parts(records), batch, on_dead)


def in_parts(records: Iterable[OutputRecord]) -> Callable[[Fold], list[FoldedPart]]:
    """What runs a fold on each partition of a batch, the last one first."""
    in_order = sorted(records, key=itemgetter(0, 1))
    parts = [list(part) for _, part in groupby(in_order, key=itemgetter(0, 1))]

    def run(fold: Fold) -> list[FoldedPart]:
        pickled = pickle.dumps(fold)
        folded = [pickle.loads(pickled)(part) for part in reversed(parts)]
        return FoldedPart.parsed(row for part in folded for row in part.rows())

    return run
