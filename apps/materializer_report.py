"""What the materializer says while it runs."""

import json
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from stores.sink import Applied

REPORT_SECONDS = 5.0

log = logging.getLogger("materializer")


class Report:
    """One line every few seconds, as long as something happens."""

    def __init__(self, broker: str, topics: Sequence[str]) -> None:
        self.broker = broker
        self.topics = topics
        self.waiting = ""
        self.missing: set[str] = set()
        self.at = time.monotonic()
        self.records = self.batches = 0

    def look(
        self, query: StreamingQuery, batches: int, total: Applied, *, last: bool = False
    ) -> None:
        """Log what is new of a query of so many batches, which came to `total`.

        last: now, although the last line is not long ago, but without what is waited for.
        """
        seconds = time.monotonic() - self.at
        if seconds < REPORT_SECONDS and not last:
            return
        progress = query.lastProgress
        source: Mapping[str, Any] = progress["sources"][0] if progress is not None else {}
        if source:
            self._tell_missing(_offsets(source["latestOffset"]))
        elif not last:
            self._tell_waiting(query.status["message"])
        if batches > self.batches:
            log.info(
                "%s records in %s batches, %s/s: %s applied, %s replayed, %s duplicates, %s dead; "
                "%s behind",
                f"{total.records:,}",
                f"{batches:,}",
                f"{(total.records - self.records) / max(seconds, 0.001):,.0f}",
                f"{total.applied:,}",
                f"{total.replayed:,}",
                f"{total.duplicates:,}",
                f"{total.dead:,}",
                f"{lag(source):,}" if source else "?",
            )
        self.at = time.monotonic()
        self.records, self.batches = total.records, batches

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


def lag(source: Mapping[str, Any]) -> int:
    """How many offsets the last batch was behind the topics' ends."""
    latest, end = _offsets(source["latestOffset"]), _offsets(source["endOffset"])
    return sum(
        offset - end.get(topic, {}).get(partition, 0)
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def _offsets(text: Any) -> dict[str, dict[str, int]]:
    return json.loads(text) or {} if isinstance(text, str) else text or {}
