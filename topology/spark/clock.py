"""What time it is for a batch, from Spark's own notes: the same each time the batch is run.

Spark notes in the checkpoint's `offsets` folder, before it runs a batch, when it made it and where
it ends. Nothing else goes into a decision: so a batch that is run again after a crash, perhaps a
day later, gives up the gaps that it gave up then, and its outputs are the same.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

import orjson

log = logging.getLogger("topology.spark")

Ends = dict[str, dict[str, int]]
"""Topic → partition → the offset behind what is read of it."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch as Spark notes it. made: when (ms). ends: where it ends."""

    made: int
    ends: Ends


def parse_offsets(text: str) -> Planned:
    """The note of one batch of a query with one Kafka source. Raises ValueError."""
    version, _, rest = text.partition("\n")
    metadata, _, offsets = rest.partition("\n")
    if version.strip() != "v1":
        raise ValueError(
            f"the checkpoint's offsets have version {version!r}, and this program reads 'v1': "
            "use the Spark that this program is pinned to"
        )
    return Planned(orjson.loads(metadata)["batchTimestampMs"], orjson.loads(offsets))


class BatchClock:
    """The watermark of each batch: a time by which all that had arrived is in it or before it.

    read: batch number → Spark's note of it, None where there is none. limit: batch number → how
    many records it has at most.

    A batch that is not full has all that had arrived when Spark looked for its end. That was after
    the batch before it was made, whose time is the watermark.
    """

    def __init__(self, read: Callable[[int], str | None], limit: Callable[[int], int]) -> None:
        self._read = read
        self._limit = limit
        self._last: tuple[int, Planned] | None = None
        self._told = False

    def watermark(self, batch: int) -> int | None:
        """A time (ms) by which all that had arrived is in this batch or one before it, or None."""
        now, before = self.planned(batch), self.planned(batch - 1) if batch else None
        if now is not None:
            self._last = batch, now
        if now is None or before is None:
            return None
        # Spark shares the limit out among partitions that have something; each gets one at least,
        # and the rest of its share is rounded down.
        new = taken(before.ends, now.ends)
        limit = self._limit(batch)
        if limit < len(new) and not self._told:
            self._told = True
            log.warning(
                "a batch has %d messages at most, and there are %d partitions: while many of them "
                "have something, no gap is given up by time; give --max-records-per-trigger more",
                *(limit, len(new)),
            )
        full = sum(new) >= limit - sum(map(bool, new))
        return before.made if not any(new) or not full else None

    def planned(self, batch: int) -> Planned | None:
        """Spark's note of a batch, None where there is none."""
        if self._last is not None and self._last[0] == batch:
            return self._last[1]
        text = self._read(batch)
        return None if text is None else parse_offsets(text)


def taken(before: Ends, now: Ends) -> list[int]:
    """How many offsets of each partition lie between the ends of two batches."""
    return [
        offset - before.get(topic, {}).get(partition, 0)
        for topic, partitions in now.items()
        for partition, offset in partitions.items()
    ]
