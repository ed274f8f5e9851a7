"""Batches that are folded part by part, as Spark's executors do it."""

from collections.abc import Iterable

from stores.sinks import Applied, Batch, OnDead, OutputRecord
from stores.sinks.distributed import NotDistributed


class FoldsApart:
    """In front of a sink: what is not plain is applied at once, as a materializer does."""

    reasons: tuple[str, ...] = ()
    """Why batches were not folded apart."""

    def apply_apart(
        self, records: list[OutputRecord], batch: Batch | None, on_dead: OnDead | None
    ) -> Applied:
        """Apply a batch by its parts. Raises NotDistributed."""
        raise NotImplementedError

    def apply(
        self,
        records: Iterable[OutputRecord],
        batch: Batch | None = None,
        on_dead: OnDead | None = None,
    ) -> Applied:
        records = list(records)
        try:
            return self.apply_apart(records, batch, on_dead)
        except NotDistributed as reason:
            self.reasons = (*self.reasons, str(reason))
            applied: Applied = super().apply(records, batch, on_dead)  # type: ignore[misc]
            return applied
