"""Reads what is recorded of a source: which events arrived when, partition by partition."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

from aiokafka import TopicPartition

from topology.declaration.source import Source
from topology.declaration.view import View
from topology.diagnostics.normalised_arrivals import NormalisedArrivals
from topology.faust.inspection.durable import DurableState
from topology.faust.kafka.broker.shapes import configs
from topology.model.errors import Malformed
from topology.model.event import Event, Message
from topology.model.origin_headers import original
from topology.sequencer.sequencer import Ordering

STAMP = "message.timestamp.type"


class Reading:
    """What is recorded of a source, partition by partition."""

    def __init__(self, source: Source, views: Sequence[View]) -> None:
        self.source, self.views = source, views
        self.parts: list[NormalisedArrivals] = []
        self.whole = True
        self._split = [view for view in views if view.split is not None]
        self._earlier = 0

    async def read(self, durable: DurableState, limit: int) -> None:
        """Read the last `limit` messages, as many of each partition."""
        source = self.source
        each = max(1, limit // source.partitions)
        spans = await durable.span(
            TopicPartition(source.by_stream, number) for number in range(source.partitions)
        )
        kinds = {kind for view in self.views for kind in view.ordering.opens | view.ordering.closes}
        for partition, span in spans.items():
            self.whole = self.whole and span.end <= each and span.first == 0
            part = NormalisedArrivals(kinds, 1 + len(self._split))
            start = max(span.first, span.end - each)
            records = durable.records(partition, start, span.end)
            await self._take(part, records, durable.now)
            self.parts.append(part)

    async def _take(
        self, part: NormalisedArrivals, records: AsyncIterator[Message], now: int
    ) -> None:
        source, sequence, latest = self.source, self.source.sequence, 0
        assert sequence.counts
        async for record in records:
            # Of a keyed source the producers may set the time; it is the log that orders.
            self._earlier += record.timestamp < latest
            latest = max(latest, min(record.timestamp, now))
            try:
                found = source.inspect(record if source.keyed else original(record))
            except Malformed:
                continue
            if found is None or found[1] < sequence.start:
                continue
            if (found[1] - sequence.start) % sequence.step:
                continue
            event = Event(*found, record, latest)
            lanes = [view.split([event])[0].stream for view in self._split if view.split]
            part.add([event.stream, *lanes], event.sequence, event.kind, latest)

    def ordering(self, view: View) -> tuple[Ordering, int, int | None]:
        """How a view orders; which column of the records has its streams; and which sequence they
        are to begin with, where it is not known what was before."""
        ordering = replace(view.ordering, skip_after=None, learn=False)
        if not self.whole:
            ordering = replace(ordering, opens=frozenset())
        column = 0 if view.split is None else 1 + self._split.index(view)
        # A view that begins anywhere needs no other beginning.
        anywhere = self.whole or ordering.open_after is not None
        return ordering, column, None if anywhere else ordering.start

    async def stamped(self, app: Any) -> str:
        """Whose times these are."""
        topic = self.source.by_stream
        if not self.source.keyed:
            return f"times: when the workers wrote to {topic}, partition by partition"
        kind = (await configs(app, [topic])).get(topic, {}).get(STAMP, "unknown")
        if kind == "LogAppendTime":
            return f"times: when the broker appended to {topic}"
        return (
            f"times: NOT of arrival but as the producers set them, since {STAMP} of {topic} is "
            f"{kind}; {self._earlier:,} of them are earlier than one before. Set it to "
            "LogAppendTime for what comes from now on"
        )
