"""What the driver does with each batch of a query: run it, write what it comes to, count it."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import fields

from pyspark.sql import DataFrame

from stores.sinks import Batch, OutputRecord, Sink
from topology.declaration.topology import Topology
from topology.engine.intake import IntakeCounts
from topology.model.counts import Counts, saturated
from topology.spark.batch_handler import BatchHandler, tell_dead
from topology.spark.checkpoint import Checkpoint
from topology.spark.clock import BatchClock
from topology.spark.codec import Outcome, OutgoingRecord, decode_outcome
from topology.spark.processor import WATERMARK
from topology.spark.writer import OutputWriter

log = logging.getLogger("topology.spark")

REPORTS = 200
"""Lines for the log of one batch."""
DIRECT = -1
"""The partition of records that go to a read store without a topic: no real one has the number."""


class Batches(BatchHandler):
    """Takes a query's batches.

    sink: the read store that row changes go to, if one is given. topics: whether they go to the
    views' output topics.
    """

    def __init__(
        self,
        topology: Topology,
        checkpoint: Checkpoint,
        clock: BatchClock,
        writer: OutputWriter,
        sink: Sink | None,
        *,
        topics: bool,
    ) -> None:
        super().__init__()
        self.topology = topology
        self._outputs = {view.output for view in topology.views.values()}
        self._checkpoint, self._clock = checkpoint, clock
        self._writer, self._sink, self._topics = writer, sink, topics
        self._counted, self._counts, self._turn = checkpoint.counts()

    def handle(self, frame: DataFrame, number: int) -> None:
        if self.last < 0:
            self._checkpoint.note_removed(self.topology)
        context = frame.sparkSession.sparkContext
        query = context.getLocalProperty("sql.streaming.queryId") or "unknown"
        watermark, planned = self._clock.watermark(number), self._clock.planned(number)
        assert planned is not None, "Spark notes a batch before it runs it"
        # The tasks of this batch, and no others, see it: the batch runs in this thread.
        context.setLocalProperty(WATERMARK, "" if watermark is None else str(watermark))
        outcomes = [decode_outcome(row) for row in frame.toArrow()["packed"].to_pylist()]
        records = [sent for outcome in outcomes for sent in outcome.records]
        changes, others = self._split(records)
        if self._sink is not None and changes:
            # A clock that was set back may show the same time again, but not to the same number.
            known = planned.made << 16 | number & 0xFFFF
            self._apply(self._sink, changes, Batch(query, known, sparse=True))
        self._writer.write(query, (number, planned.made), others, planned.ends)
        self._count(number, outcomes)
        _tell(line for outcome in outcomes for line in outcome.reports)

    def _split(
        self, records: list[OutgoingRecord]
    ) -> tuple[list[OutgoingRecord], list[OutgoingRecord]]:
        """(row changes, what goes to topics)."""
        changes = [sent for sent in records if sent.topic in self._outputs]
        if self._topics:
            return changes, records
        return changes, [sent for sent in records if sent.topic not in self._outputs]

    def _apply(self, sink: Sink, changes: Iterable[OutgoingRecord], batch: Batch) -> None:
        """Hand row changes to the read store, unless it has those of a batch that is run again.

        The store's own positions go on from where they are, whatever Spark counts: what it has is
        told by the sequences alone, also after a checkpoint was lost. They do not tell of a dead
        record at the end of its stream; so the last batch is known as well, by when it was made
        and its number, which alone is another batch's too where a checkpoint was restored or its
        newest note lost.
        """
        if sink.last_batch(batch.query) == batch.number:
            return
        places = {place.topic: place for place in sink.progress() if place.partition == DIRECT}
        nexts = {topic: place.next_offset for topic, place in places.items()}

        def numbered() -> Iterator[OutputRecord]:
            for sent in changes:
                at = nexts.get(sent.topic, 0)
                nexts[sent.topic] = at + 1
                yield sent.topic, DIRECT, at, sent.value

        tell_dead(log, sink.apply(numbered(), batch))

    def _count(self, number: int, outcomes: Iterable[Outcome]) -> None:
        if number <= self._counted:
            return
        found = [outcome.counts for outcome in outcomes if outcome.counts]
        for counts in found:
            for name, places in counts.items():
                of = self._counts.setdefault(name, {})
                for place, count in places.items():
                    of[place] = saturated(of.get(place, 0) + count)
        self._counted = number
        if found:
            self._checkpoint.note_counts(number, self._turn, self._counts)
            self._turn += 1

    def counts(self) -> dict[str, Counts]:
        """View → where its events ended, as of the last batch."""
        known = {field.name for field in fields(Counts)}
        found = defaultdict(dict, self._counts)
        return {
            name: Counts(**{place: n for place, n in found[name].items() if place in known})
            for name in self.topology.views
        }

    def taken(self) -> dict[str, IntakeCounts]:
        """Source → what became of its messages, as of the last batch."""
        return {
            name: IntakeCounts(**self._counts.get(f"<{name}", {})) for name in self.topology.sources
        }


def _tell(lines: Iterable[str]) -> None:
    left = 0
    for number, line in enumerate(lines):
        if number < REPORTS:
            log.warning("%s", line)
        else:
            left += 1
    if left:
        log.warning("and %d lines more", left)
