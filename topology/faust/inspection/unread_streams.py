"""Which streams may have what they miss among the messages that their views have not read yet."""

from collections.abc import Callable
from contextlib import suppress

from aiokafka import TopicPartition

from topology.declaration.lanes import split_lane
from topology.declaration.source import Source
from topology.declaration.view import View
from topology.diagnostics.explain import OpenGap, of_counts
from topology.faust.inspection.durable import DurableState
from topology.model.errors import Malformed
from topology.model.event import Message

Streams = set[str] | None
"""Streams of the messages of a partition that are not read; None if not all of them are seen."""


class UnreadStreams:
    """Looks at what is not read, at each partition once."""

    def __init__(self, durable: DurableState) -> None:
        """durable: one that has found what is held."""
        self._durable = durable
        self._inputs: dict[tuple[str, int], Streams] = {}
        self._unkeyed: dict[str, list[Streams]] = {}

    async def may_have(self, gap: OpenGap) -> bool:
        """Whether what is missing in a gap may lie where its view has not read yet."""
        view = self._durable.topology.views[gap.view]
        stream = gap.stream if view.split is None else split_lane(gap.stream)[0]
        # In this order, what is re-keyed in between is seen twice, rather than not at all.
        unread = [*await self._of_source(view.of), await self._of_input(view, gap.partition)]
        return any(streams is None or stream in streams for streams in unread)

    async def _of_source(self, source: Source) -> list[Streams]:
        """Of what is not re-keyed yet."""
        if source.keyed:
            return []
        if source.name not in self._unkeyed:
            durable, inputs = self._durable, await self._durable.inputs(source)
            done, spans = await durable.committed(inputs), await durable.span(inputs)
            self._unkeyed[source.name] = [
                await self._streams(
                    each, done[each].offset if each in done else span.first, _inspected(source)
                )
                for each, span in spans.items()
            ]
        return self._unkeyed[source.name]

    async def _of_input(self, view: View, number: int) -> Streams:
        place = view.name, number
        if place not in self._inputs:
            durable, partition = self._durable, TopicPartition(view.of.by_stream, number)
            start = (await durable.task(view, number, of_counts)).state.positions.input
            if start is None:
                done = (await durable.committed([partition])).get(partition)
                start = 0 if done is None else done.offset
            stream_of = _inspected(view.of) if view.of.keyed else _key
            self._inputs[place] = await self._streams(partition, start, stream_of)
        return self._inputs[place]

    async def _streams(
        self, partition: TopicPartition, start: int, stream_of: Callable[[Message], str | None]
    ) -> Streams:
        found: set[str] = set()

        def note(record: Message) -> bool:
            if (stream := stream_of(record)) is not None:
                found.add(stream)
            return False

        if (await self._durable.span([partition]))[partition].held:
            return None
        tail = await self._durable.end_of(partition, note, least=start)
        return None if tail.cut else found


def _inspected(source: Source) -> Callable[[Message], str | None]:
    def stream_of(message: Message) -> str | None:
        with suppress(Malformed):
            if (found := source.inspect(message)) is not None:
                return found[0]
        return None

    return stream_of


def _key(record: Message) -> str | None:
    return None if record.key is None else record.key.decode("utf-8", "replace")
