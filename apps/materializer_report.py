"""What the materializer says while it runs: lines in the log, and a file that programs read."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pyspark.sql.streaming.query import StreamingQuery

from stores.sink import Applied

REPORT_SECONDS = 5.0
STATUS_SECONDS = 1.0

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

    def add(self, number: int, applied: Applied, seconds: float) -> None:
        """Count a batch."""
        self.batches += 1
        self.total.add(applied)
        self.number, self.last, self.seconds, self.at = number, applied, seconds, time.time()


class Report:
    """One line every few seconds, as long as something happens, and a file if there is to be one.

    status: the file, which is replaced every second, so that a reader sees all of it or none.
    """

    def __init__(self, broker: str, topics: Sequence[str], status: Path | None = None) -> None:
        self.broker = broker
        self.topics = topics
        self.status = status
        self.waiting = ""
        self.missing: set[str] = set()
        self.at = self.status_at = time.monotonic()
        self.records = self.batches = 0
        self.rate = 0.0

    def look(self, query: StreamingQuery, done: Done, *, last: bool = False) -> None:
        """Say what is new of a query whose batches came to this.

        last: now, although the last line is not long ago, but without what is waited for.
        """
        now = time.monotonic()
        tell = last or now - self.at >= REPORT_SECONDS
        show = self.status is not None and (last or now - self.status_at >= STATUS_SECONDS)
        if not tell and not show:
            return
        progress = query.lastProgress
        source: Mapping[str, Any] = progress["sources"][0] if progress is not None else {}
        if source:
            self._tell_missing(_offsets(source["latestOffset"]))
        if tell:
            self.rate = (done.total.records - self.records) / max(now - self.at, 0.001)
            if not source and not last:
                self._tell_waiting(query.status["message"])
            if done.batches > self.batches:
                self._tell(done, source)
            self.at, self.records, self.batches = now, done.total.records, done.batches
        if show:
            self.status_at = now
            running = query.isActive and not last
            self._write(status(done, source, sorted(self.missing), self.rate, running=running))

    def _tell(self, done: Done, source: Mapping[str, Any]) -> None:
        total = done.total
        log.info(
            "%s records in %s batches, %s/s: %s applied, %s replayed, %s duplicates, %s dead; "
            "%s behind",
            f"{total.records:,}",
            f"{done.batches:,}",
            f"{self.rate:,.0f}",
            f"{total.applied:,}",
            f"{total.replayed:,}",
            f"{total.duplicates:,}",
            f"{total.dead:,}",
            f"{lag(source):,}" if source else "?",
        )

    def _write(self, content: Mapping[str, Any]) -> None:
        assert self.status is not None
        draft = self.status.with_name(f".{self.status.name}.draft")
        try:
            draft.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))
            draft.replace(self.status)
        except OSError as error:  # what is told of the work must not end it
            log.warning("status: %s", error)

    def _tell_waiting(self, message: str) -> None:
        """Say once what the query waits for; a broker that does not answer is one reason."""
        if message != self.waiting:
            log.info("nothing is read from %s yet: %s", self.broker, message)
        self.waiting = message

    def _tell_missing(self, there: Mapping[str, Any]) -> None:
        missing = set(self.topics).difference(there)
        if missing and missing != self.missing:
            log.info("waiting for topics that do not exist yet: %s", ", ".join(sorted(missing)))
        self.missing = missing


def status(
    done: Done, source: Mapping[str, Any], missing: Sequence[str], rate: float, *, running: bool
) -> dict[str, Any]:
    """The content of the status file; docs/materializing.md says what is in it."""
    latest, end = (_offsets(source.get(name)) for name in ("latestOffset", "endOffset"))
    total, last = done.total, done.last
    return {
        "at": _time(time.time()),
        "running": running,
        "lag": lag(source) if source else None,
        "records_per_second": round(rate, 1),
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
        "partitions": [
            {
                "topic": topic,
                "partition": int(partition),
                "next_offset": end.get(topic, {}).get(partition, 0),
                "end": offset,
            }
            for topic, partitions in sorted(latest.items())
            for partition, offset in sorted(partitions.items(), key=lambda item: int(item[0]))
        ],
        "missing_topics": list(missing),
    }


def lag(source: Mapping[str, Any]) -> int:
    """How many offsets the last batch was behind the topics' ends."""
    latest, end = _offsets(source["latestOffset"]), _offsets(source["endOffset"])
    return sum(
        offset - end.get(topic, {}).get(partition, 0)
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _offsets(text: Any) -> dict[str, dict[str, int]]:
    return json.loads(text) or {} if isinstance(text, str) else text or {}
