"""Some streams of a view: rebuilt by themselves, and put into the live tables at one stroke.

What the view's earlier outputs wrote for these streams goes, and what is rebuilt comes, together
with what the view has said of them since; at a moment at which both sides are equally far.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import functions as F

from sequitur.rebuild.build import Build
from sequitur.rebuild.job_report import report
from sequitur.rebuild.plan import Plan
from sequitur.rebuild.switch import followed_from
from stores.sinks import NotYet, OutputRecord, Position, Sink, StoreError
from stores.sinks.decoding import decode
from topology import View
from topology.declaration.lanes import split_lane
from topology.model.counted import counted
from topology.spark import history
from topology.spark.slices import SliceRecord
from topology.view_rebuild.replacement import Replacement, are_changes

if TYPE_CHECKING:
    from sequitur.rebuild.job import Job

MOST = 100_000
"""Streams that are replaced together; for more, the whole view is rebuilt."""
PATIENCE = 300.0
"""Seconds to try to replace them."""

Said = tuple[tuple[str, str], dict[str, Any]]
"""(output topic, stream), and a record's epoch, sequence and changes."""

log = logging.getLogger("rebuild")


class Partial:
    """A rebuild of some streams. check: what it raises ends it."""

    def __init__(self, job: "Job", plan: Plan, live: Sink, check: Callable[[], None]) -> None:
        self._job, self._plan, self._live, self._check = job, plan, live, check
        self._streams: dict[tuple[str, str], Replacement] = {}
        """(output topic, stream) → what becomes of it."""

    def run(self) -> None:
        """Rebuild the streams and replace them. Raises what `Job.run` raises."""
        job, check = self._job, self._check
        with (
            job.limits(self._plan, check) as limits,
            job.spark() as spark,
            job.sending() as sending,
        ):
            began = time.monotonic()
            build = job.build(spark, limits, self._plan, check)
            slices = build.run(None)
            outputs = {view.name: view.output for view in self._job.views}
            sent = []
            for each in slices:
                for number in each.done():
                    for rows in each.read(number):
                        for row in rows:
                            if isinstance(row, SliceRecord):
                                self._rebuilt(outputs[row.view], row)
                            else:
                                sent.append(row)
            report(build.tallies, time.monotonic() - began)
            self._job.judge(build.tallies)
            self._note_missing()
            if not self._streams:
                log.info("nothing is rebuilt: no view has begun a stream that was chosen")
                return
            self._find_written(build)
            if sending is not None:
                sending.send(sent)
        self._replace()

    def _note_missing(self) -> None:
        """Tell of the streams that were asked for, and that no view has rebuilt."""
        there = {view.name: self._rebuilt_of(view) for view in self._job.views}
        self._job.missing = tuple(
            stream
            for stream in self._plan.request.streams
            if not any(v.of.stream_id(stream) in there[v.name] for v in self._job.views)
        )
        for stream in self._job.missing:
            log.warning(
                "stream %r is not rebuilt: the history has no message of it, or none of that time, "
                "or no view has begun it",
                stream,
            )

    def _rebuilt_of(self, view: View) -> set[str]:
        """The source's streams of which a view has something."""
        found = (stream for topic, stream in self._streams if topic == view.output)
        return set(found) if view.split is None else {split_lane(stream)[0] for stream in found}

    def _rebuilt(self, topic: str, row: SliceRecord) -> None:
        body = orjson.loads(row.value)
        at = topic, body["stream"]
        found = self._streams.get(at)
        if found is None:
            if len(self._streams) >= MOST:
                raise StoreError(f"more than {MOST:,} streams: rebuild the whole view")
            found = self._streams[at] = Replacement(body["view"], body["stream"])
        found.rebuilt(body)

    # -- what was written before

    def _find_written(self, build: Build) -> None:
        """Look through the output topics for the rows that the streams have written so far."""
        for view in self._job.views:
            spans = self._plan.snapshot.said[view.output]
            if any(first > 0 for first, _ in spans.values()):
                log.warning(
                    "the output topic %s begins at a later offset than 0: rows that only older "
                    "outputs have stay as they are",
                    view.output,
                )
            frame = history.of_topics(build.spark, build.kafka, {view.output: spans})
            keyed = frame.select(F.col("key").cast("string").alias("stream"), "value")
            streams = [(stream,) for stream in self._rebuilt_of(view)]
            chosen = build.spark.createDataFrame(streams, "stream string")
            rows = keyed.join(chosen, "stream", "left_semi").select("value")
            for (value,) in rows.toLocalIterator(prefetchPartitions=True):
                said = self._said(view.output, value)
                if said is not None:
                    self._streams[said[0]].wrote(said[1]["changes"])

    def _said(self, topic: str, value: bytes | None) -> Said | None:
        """A record of an output topic, None if it is of no chosen stream, or never applied."""
        found = decode(topic, value)
        if not isinstance(found, tuple):
            return None
        (_, _, stream), (epoch, sequence), changes = found
        if (topic, stream) not in self._streams or not are_changes(changes):
            return None
        return (topic, stream), {"epoch": epoch, "sequence": sequence, "changes": changes}

    # -- the live tables

    def _replace(self) -> None:
        """Put the streams into the live tables, once the outputs that these have are known.

        Raises NotYet if they are not for long, StoreError if some are gone.
        """
        snapshot = self._plan.snapshot
        start = {(t, p): at for t, each in snapshot.outputs.items() for p, at in each.items()}
        until = time.monotonic() + PATIENCE
        with followed_from(self._job.app, start) as follower:
            pending: list[tuple[tuple[str, int, int], Said]] = []
            while True:
                self._check()
                live = {(p.topic, p.partition): p for p in self._live.progress()}
                here = follower.positions()
                left = [p for at, p in live.items() if at in here and here[at] < p.next_offset]
                if left:
                    if time.monotonic() > until:
                        raise NotYet(
                            f"topic {left[0].topic!r} partition {left[0].partition} was not read "
                            f"up to offset {left[0].next_offset}, where the live tables are, in "
                            f"{PATIENCE:.0f} s"
                        )
                    for topic, partition, offset, value in follower.take():
                        said = self._said(topic, value)
                        if said is not None:
                            pending.append(((topic, partition, offset), said))
                    continue
                try:
                    self._apply(pending, [live.get(at) or Position(*at) for at in start])
                    return
                except NotYet:
                    if time.monotonic() > until:
                        raise

    def _apply(
        self, pending: list[tuple[tuple[str, int, int], Said]], positions: list[Position]
    ) -> None:
        ends = {(p.topic, p.partition): p.next_offset for p in positions}
        followed: dict[tuple[str, str], list[Any]] = {}
        for (topic, partition, offset), (at, body) in pending:
            if offset < ends[topic, partition]:
                followed.setdefault(at, []).append(body)
        records = list(self._records(followed))
        done = self._live.replace_streams(records, positions)
        log.info(
            "%s replaced: %s written, %s deleted",
            counted(len(self._streams), "stream"),
            counted(done.upserts, "row"),
            f"{done.deletes:,}",
        )

    def _records(self, followed: dict[tuple[str, str], list[Any]]) -> Iterator[OutputRecord]:
        for number, (at, found) in enumerate(self._streams.items()):
            yield at[0], -1, number, found.record(followed.get(at, []))
