"""What a materializer answers about itself: figures, and what keeps it from its work."""

import time
from collections.abc import Iterator

from prometheus_client.core import Metric

from sequitur.materialize.report import STALE_SECONDS, Report, partitions_of
from topology.monitoring import Lags, Pages, counter, single


class MaterializerPages(Pages):
    """report: of the query, which Spark tells how far it is every few seconds."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self._report = report
        self._lags = Lags()
        report.done.took = self.histogram(
            "sequitur_materializer_batch_seconds", "Applying a batch to the read store."
        ).observe

    def collect(self) -> Iterator[Metric]:
        report, total, now = self._report, self._report.done.total, time.monotonic()
        there = {(each["topic"], each["partition"]): each for each in partitions_of(report.source)}
        self._lags.note({at: each["end"] for at, each in there.items()}, now)
        positions = {at: each["next_offset"] or 0 for at, each in there.items()}
        yield from self._lags.metrics("sequitur_materializer", positions, now)
        became = ("applied", "replayed", "duplicates", "dead")
        yield counter(
            "sequitur_materializer_records",
            "Records of output topics by what became of them.",
            ["outcome"],
            (([name], getattr(total, name)) for name in became),
        )
        yield counter(
            "sequitur_materializer_rows",
            "Rows written, after the changes of one row in a batch were merged.",
            ["change"],
            ((["upsert"], total.upserts), (["delete"], total.deletes)),
        )
        yield single(
            "sequitur_materializer_dead_records",
            "Records that could not be applied, before this start too.",
            (report.dead or 0) + total.dead,
        )
        age = now - report.known_at
        yield single("sequitur_materializer_known_seconds", "How old these figures are.", age)

    async def troubles(self) -> list[str]:
        report, found = self._report, list[str]()
        age = time.monotonic() - report.known_at
        if not report.source:
            found.append(f"nothing is read from {report.broker} yet")
        elif age > STALE_SECONDS:
            found.append(
                f"for {age:.0f} s Spark has told nothing: the broker {report.broker} does not "
                "answer, or a batch takes as long"
            )
        return [*found, *filter(None, [report.problem])]
