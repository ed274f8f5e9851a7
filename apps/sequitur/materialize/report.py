"""What the materializer says while it runs: lines in the log, and a file that programs read."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql.streaming.query import StreamingQuery

from stores.sinks import Applied
from topology.model.counted import counted

REPORT_SECONDS = 5.0
STATUS_SECONDS = 1.0
STALE_SECONDS = 30.0
"""Spark tells every 10 seconds where the topics end, also when there is nothing to do."""

log = logging.getLogger("materializer")


@dataclass(slots=True)
class Done:
    """What the query's batches came to so far.

    number, at, seconds, last: of the last one: its number, when it was committed in seconds since
    1970, how long it took, what it came to.
    """

    batches: int = 0
    total: Applied = field(default_factory=Applied)
    number: int = -1
    at: float = 0.0
    seconds: float = 0.0
    last: Applied = field(default_factory=Applied)
    took: Callable[[float], None] = lambda seconds: None
    """Is told of the time of each batch."""

    def add(self, number: int, applied: Applied, seconds: float) -> None:
        """Count a batch."""
        self.batches += 1
        self.total.add(applied)
        self.number, self.last, self.seconds, self.at = number, applied, seconds, time.time()
        self.took(seconds)


class Report:
    """One line every few seconds, as long as something happens, and a file if there is to be one.

    status: the file, which is replaced every second, so that a reader sees all of it or none.
    done: what all queries' batches came to. dead: records of these topics that are dead besides
    those of the batches, None until the store has said so; below 0 where a rebuild has healed some
    of these. problem: what a person should look at.
    """

    def __init__(self, broker: str, topics: Sequence[str], status: Path | None = None) -> None:
        self.broker = broker
        self.topics = topics
        self.status = status
        self.done = Done()
        self.dead: int | None = None
        self.problem: str | None = None
        self.waiting = ""
        self.missing: set[str] = set()
        self.at = self.status_at = self.known_at = time.monotonic()
        self.records = self.batches = 0
        self.rate: float | None = None
        self.source: Mapping[str, Any] = {}
        """What Spark has told of the topics, as of `known_at`."""
        self._known: Any = None
        self._stale = False

    def begin(self, topics: Sequence[str], dead: int) -> None:
        """A query begins to read these topics; so many records of all that it reads are dead."""
        self.topics = topics
        if self.dead is None and dead:
            log.warning(
                "%s could not be applied before: see the table _dead", counted(dead, "record")
            )
        self.recount(dead)

    def recount(self, dead: int) -> None:
        """So many records of all that the query reads are dead, those of its batches among them."""
        self.dead = dead - self.done.total.dead

    def left(self) -> str:
        """What is left to look at, empty if nothing is."""
        dead = (self.dead or 0) + self.done.total.dead
        parts = (
            [f"{counted(dead, 'record')} could not be applied: see the table _dead"] if dead else []
        )
        return "; ".join([*parts, *filter(None, [self.problem])])

    def tell_problem(self, problem: str | None) -> None:
        """Log a problem and show it from now on; None where it is gone."""
        self.problem = problem
        if problem is not None:
            log.error("%s", problem)

    def look(self, query: StreamingQuery, *, last: bool = False) -> None:
        """Say what is new of a query.

        last: now, although the last line is not long ago, but without what is waited for.
        """
        now, done = time.monotonic(), self.done
        tell = last or now - self.at >= REPORT_SECONDS
        show = self.status is not None and (last or now - self.status_at >= STATUS_SECONDS)
        if not tell and not show:
            return
        progress = query.lastProgress
        source: Mapping[str, Any] = progress["sources"][0] if progress is not None else {}
        if source:
            self.source = source
            self._note(progress, now)
            self._tell_missing(_offsets(source["latestOffset"]))
        if tell:
            self.rate = (done.total.records - self.records) / max(now - self.at, 0.001)
            if not last:
                self._tell_waiting(query, known=bool(source), age=now - self.known_at)
            if done.batches > self.batches:
                self._tell(source, now - self.known_at)
            self.at, self.records, self.batches = now, done.total.records, done.batches
        if show:
            self.status_at = now
            running = query.isActive and not last
            self._write(self.content(source, now - self.known_at, running=running))

    def end(self, problem: str | None) -> None:
        """Show that it has ended. problem: what it ended with, None where it was to end."""
        self.problem = problem or self.problem
        if self.status is not None:
            age = time.monotonic() - self.known_at
            self._write(self.content(self.source, age, running=False))

    def content(self, source: Mapping[str, Any], age: float, *, running: bool) -> dict[str, Any]:
        """The content of the status file; docs/materializing.md says what is in it."""
        done, behind = self.done, lag(source)
        return {
            "at": _time(time.time()),
            "running": running,
            "lag": behind,
            "lag_age": None if behind is None else round(age, 1),
            "records_per_second": None if self.rate is None else round(self.rate, 1),
            **_batches(done),
            "dead_records": None if self.dead is None else self.dead + done.total.dead,
            "partitions": partitions_of(source),
            "missing_topics": sorted(self.missing),
            "problem": self.problem,
        }

    def _tell(self, source: Mapping[str, Any], age: float) -> None:
        done, total, behind = self.done, self.done.total, lag(source)
        log.info(
            "%s in %s, %s/s: %s applied, %s replayed, %s duplicates, %s dead%s; %s",
            counted(total.records, "record"),
            counted(done.batches, "batch", "batches"),
            f"{self.rate or 0:,.0f}",
            f"{total.applied:,}",
            f"{total.replayed:,}",
            f"{total.duplicates:,}",
            f"{total.dead:,}",
            f" (and {self.dead:,} before)" if (self.dead or 0) > 0 else "",
            "it is not known yet how far behind"
            if behind is None
            else f"{behind:,} behind" + (f", as of {age:.0f} s ago" if age > STALE_SECONDS else ""),
        )

    def _write(self, content: Mapping[str, Any]) -> None:
        assert self.status is not None
        draft = self.status.with_name(f".{self.status.name}.draft")
        try:
            draft.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            draft.replace(self.status)
        except OSError as error:  # what is told of the work must not end it
            log.warning("status: %s", error)

    def _note(self, progress: Any, now: float) -> None:
        """Spark has told anew how far things are, or has not."""
        known = (progress.get("runId"), progress.get("batchId"), progress.get("timestamp"))
        if known != self._known:
            self._known, self.known_at, self._stale = known, now, False

    def _tell_waiting(self, query: StreamingQuery, *, known: bool, age: float) -> None:
        """Say once what the query waits for; a broker that does not answer is one reason."""
        if not known:
            message = query.status["message"]
            if message != self.waiting:
                log.info("nothing is read from %s yet: %s", self.broker, message)
            self.waiting = message
        elif age > STALE_SECONDS and not self._stale:
            self._stale = True
            log.warning(
                "for %.0f s nothing new is known of how far behind it is: %s; is %s there?",
                age,
                query.status["message"],
                self.broker,
            )

    def _tell_missing(self, there: Mapping[str, Any]) -> None:
        missing = set(self.topics).difference(there)
        if missing and missing != self.missing:
            log.info("waiting for topics that do not exist yet: %s", ", ".join(sorted(missing)))
        self.missing = missing


def _batches(done: Done) -> dict[str, Any]:
    total, last = done.total, done.last
    return {
        "batch": None
        if done.number < 0
        else {
            "number": done.number,
            "at": _time(done.at),
            "seconds": round(done.seconds, 3),
            "records": last.records,
            "upserts": last.upserts,
            "deletes": last.deletes,
        },
        "since_start": {
            "batches": done.batches,
            "records": total.records,
            "applied": total.applied,
            "replayed": total.replayed,
            "duplicates": total.duplicates,
            "dead": total.dead,
        },
    }


def partitions_of(source: Mapping[str, Any]) -> list[dict[str, Any]]:
    """How far each partition was read, and where it ended."""
    latest, end = (_offsets(source.get(name)) for name in ("latestOffset", "endOffset"))
    return [
        {
            "topic": topic,
            "partition": int(partition),
            "next_offset": end.get(topic, {}).get(partition),
            "end": offset,
        }
        for topic, partitions in sorted(latest.items())
        for partition, offset in sorted(partitions.items(), key=lambda item: int(item[0]))
    ]


def lag(source: Mapping[str, Any]) -> int | None:
    """How many offsets the last batch was behind the topics' ends, None if that is not known.

    It is not before Spark has told where each partition ends and where the batch did.
    """
    partitions = partitions_of(source)
    if not partitions or any(each["next_offset"] is None for each in partitions):
        return None
    return sum(int(each["end"]) - int(each["next_offset"]) for each in partitions)


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _offsets(text: Any) -> dict[str, dict[str, int]]:
    return json.loads(text) or {} if isinstance(text, str) else text or {}
