"""Reads history, rebuilds it with Spark, and loads what comes of it into the shadow."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sequitur.kafka.options import OptionError
from sequitur.rebuild.limits import Limits
from sequitur.rebuild.load import Loader
from sequitur.rebuild.plan import Plan, WorkFolder
from sequitur.rebuild.progress import Progress
from sequitur.replay.replay_file import read_replay_file
from stores.replay import Query
from stores.sinks import Sink
from topology import Topology, View
from topology.declaration.source import Source
from topology.faust.kafka.clients import connection
from topology.spark import history, rebuild
from topology.spark.captured import replay_log
from topology.spark.messages import COLUMNS
from topology.spark.slices import Emitted, Slices
from topology.view_rebuild import Tally

LOOK = 0.1
"""Seconds between two looks for slices that are complete."""
CANCEL_SECONDS = 30.0
"""How long Spark may take to let go of a job."""
_SETTINGS = {
    # One pass, and nearly all of its time is the handlers': to plan it in stages and to compile
    # code for it takes longer than that code saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
BY_STREAM, SOURCES, LOG = "by-stream", "sources", "log"

log = logging.getLogger("rebuild")


class Stopped(Exception):
    """Somebody wants the rebuild to stop; what is done is kept."""


def check_history(entry: str) -> str:
    """An entry of `--history`. Raises OptionError."""
    form, colon, path = entry.partition(":")
    if form == LOG and path:
        file = Path(path).absolute()
        read_replay_file(file)
        return f"{LOG}:{file}"
    if entry in (BY_STREAM, SOURCES) or (form in history.FORMATS and colon and path):
        return entry
    raise OptionError(
        f"history {entry!r}: write {BY_STREAM}, {SOURCES}, parquet:FOLDER, json:FOLDER or log:FILE"
    )


def history_topics(entries: Iterable[str], sources: Iterable[Source]) -> list[str]:
    """The topics that history is read from."""
    found: list[str] = []
    for source in sources:
        for entry in entries:
            if entry == BY_STREAM:
                found.append(source.by_stream)
            elif entry == SOURCES:
                found += source.topics
    return list(dict.fromkeys(found))


def kafka_of(app: Any, options: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's Kafka source that reach the app's broker."""
    servers = connection(app)["bootstrap_servers"]
    text = servers if isinstance(servers, str) else ",".join(servers)
    return {"kafka.bootstrap.servers": text, **options}


@dataclass
class Build:
    """A rebuild's first part. Methods raise Stopped, and what Kafka, Spark and the store raise.

    limits: how far the live views are. kafka: options of Spark's Kafka source. check: called often;
    what it raises ends the work.
    """

    spark: SparkSession
    topology: Topology
    limits: Limits
    plan: Plan
    folder: WorkFolder
    kafka: Mapping[str, str]
    check: Callable[[], None]
    tallies: dict[str, Tally] = field(default_factory=dict)
    chains: dict[tuple[str, str], bytes] = field(default_factory=dict)

    @property
    def views(self) -> list[View]:
        return [self.topology.views[name] for name in self.plan.request.views]

    @property
    def sources(self) -> list[Source]:
        return list(dict.fromkeys(view.of for view in self.views))

    def run(
        self, shadow: Sink | None, send: Callable[[list[Emitted]], None] | None = None
    ) -> list[Slices]:
        """Rebuild everything; load it into the shadow while it is made, if there is one."""
        for key, value in _SETTINGS.items():
            self.spark.conf.set(key, value)
        if not self.plan.slices:
            # Kept, as who goes on may have other cores, and would split the streams otherwise.
            cores = self.spark.sparkContext.defaultParallelism
            self.plan.slices = self.plan.request.slices or 8 * cores
            self.folder.save(self.plan)
        return [self._source(n, source, shadow, send) for n, source in enumerate(self.sources)]

    def _source(
        self,
        number: int,
        source: Source,
        shadow: Sink | None,
        send: Callable[[list[Emitted]], None] | None,
    ) -> Slices:
        views = [view for view in self.views if view.of is source]
        request, plan = self.plan.request, self.plan
        slices = Slices(str(self.folder.slices / f"{number}-of-{plan.slices}"))
        job = rebuild.Job(
            self.topology,
            source.name,
            [view.name for view in views],
            plan.snapshot.at,
            slices.folder,
            emit=request.emit,
            chains=request.hashes,
            fold=plan.fold,
            every=request.partial,
        )
        outputs = {view.name: view.output for view in views}
        loader = (
            None
            if shadow is None
            else Loader(shadow, slices, number, outputs, send, strict=plan.fold)
        )
        frame = self.frame(source, views)
        outcome: list[dict[str, Tally] | BaseException] = []

        def work() -> None:
            try:
                outcome.append(rebuild.run(frame, job))
            except BaseException as error:
                outcome.append(error)

        progress = Progress(f"rebuilding {', '.join(job.views)}")
        thread = threading.Thread(target=work, name="rebuild", daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                self.check()
                if loader is not None:
                    loader.load(self.check)
                progress.tell(len(slices.done()), plan.slices, self._at())
                thread.join(LOOK)
        except BaseException:
            until = time.monotonic() + CANCEL_SECONDS
            while thread.is_alive() and time.monotonic() < until:
                self.spark.sparkContext.cancelAllJobs()  # and those that begin only now
                thread.join(LOOK)
            raise
        found = outcome[0]
        if isinstance(found, BaseException):
            raise found
        if loader is not None:
            loader.load(self.check)
            self.chains |= loader.chains
        self.tallies |= found
        return slices

    def _at(self) -> str:
        """What Spark is at."""
        tracker = self.spark.sparkContext.statusTracker()
        done = total = 0
        for job in tracker.getActiveJobsIds():
            found = tracker.getJobInfo(job)
            for stage in found.stageIds if found is not None else ():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    done += info.numCompletedTasks
                    total += info.numTasks
        return f"task {done} of {total}" if total else ""

    # -- frames

    def frame(self, source: Source, views: Iterable[View]) -> DataFrame:
        """All that a source's views are rebuilt from."""
        messages = list(self.messages(source))
        return rebuild.cogroup(
            messages, self.progress(views), self.plan.slices, self._chosen(source, messages)
        )

    def messages(self, source: Source) -> Iterable[DataFrame]:
        """The history of a source, with the streams."""
        spans = self.plan.snapshot.inputs
        for entry in self.plan.request.history:
            if entry == BY_STREAM and not source.keyed:
                found = {source.by_stream: spans[source.by_stream]}
                yield rebuild.by_stream(history.of_topics(self.spark, self.kafka, found))
            elif entry in (BY_STREAM, SOURCES):
                found = {topic: spans[topic] for topic in source.topics}
                raw = history.of_topics(self.spark, self.kafka, found)
                yield rebuild.inspected(raw, self.topology, source.name)
            elif entry.startswith(f"{LOG}:"):
                raw = self._of_log(source, Path(entry.removeprefix(f"{LOG}:")))
                yield rebuild.inspected(raw, self.topology, source.name)
            else:
                form, _, path = entry.partition(":")
                files = history.of_files(self.spark, form, path)
                raw = files.where(F.col("topic").isin(*source.topics))
                yield rebuild.inspected(raw, self.topology, source.name)
                if not source.keyed:
                    keyed = files.where(F.col("topic") == source.by_stream)
                    yield rebuild.by_stream(keyed)

    def _of_log(self, source: Source, path: Path) -> DataFrame:
        """What the replay log has of a source's topics that they no longer have themselves.

        All of it, where they are not read.
        """
        spans, entries = self.plan.snapshot.inputs, self.plan.request.history
        read = SOURCES in entries or (source.keyed and BY_STREAM in entries)
        offsets = {
            topic: {number: (0, first) for number, (first, _) in spans[topic].items()}
            for topic in (source.topics if read else ())
        }
        query = Query(topics=tuple(source.topics), offsets=offsets)
        file = read_replay_file(path)
        for hole in file.existing_log().holes(query):
            log.warning("the replay log lacks %s", hole)
        found = replay_log(self.spark, file.url, query)
        return found.select(*COLUMNS)

    def progress(self, views: Iterable[View]) -> DataFrame:
        """How far the live views are in each stream."""
        return rebuild.limits(self.spark, views, self.limits.progress())

    def _chosen(self, source: Source, messages: list[DataFrame]) -> Column | DataFrame | None:
        """Which streams, None for all: a condition, or a frame of them."""
        request = self.plan.request
        chosen: Column | None = None
        if request.streams:
            chosen = F.col("stream").isin(*map(source.stream_id, request.streams))
        if request.since is None and request.until is None:
            return chosen
        times = F.lit(True)
        if request.since is not None:
            times = times & (F.col("timestamp") >= request.since)
        if request.until is not None:
            times = times & (F.col("timestamp") < request.until)
        if chosen is not None:
            times = times & chosen
        frames = [each.where(times).select("stream") for each in messages]
        found = frames[0]
        for each in frames[1:]:
            found = found.union(each)
        return found.distinct()
