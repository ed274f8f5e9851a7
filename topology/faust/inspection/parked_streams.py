"""The parked streams of a topology."""

from collections.abc import AsyncIterator
from itertools import groupby
from typing import Any

from topology.diagnostics.explain import of_waiting
from topology.diagnostics.explain.parked_streams import (
    ParkedStream,
    ParkedStreams,
    parked_of,
    reason_of,
)
from topology.diagnostics.explain.waiting_streams import knows_by_sequences
from topology.engine.parked_messages import parked_message
from topology.engine.state.rows import split_buffer_key
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.named import views_of
from topology.faust.inspection.work import parked_at_work

LIMIT = 50
"""Streams that are listed unless told otherwise."""


async def parked(app: Any, *, view: str = "", scan: int | None = None) -> ParkedStreams:
    """List the parked streams of all views, or of one, the oldest first, each with what failed.

    With all views come the stages that route, under the names of their tables.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        view: only this one; all unless given.
        scan: offsets to read at the end of a topic; unless given, as many as take five seconds.

    Returns:
        The streams, and what was not looked at.

    Raises:
        KeyError: there is no such view.
        TopicMissing: no worker of the topology has run yet.
    """
    views = views_of(app, view)
    async with DurableState(app, scan=scan) as durable:
        found: list[ParkedStream] = []
        for each in views:
            for number in range(each.of.partitions):
                if knows_by_sequences(each.ordering):
                    task, waiting = await durable.waiting(each, number)
                    found += waiting.parked(each, number, task.state.ordering)
                else:
                    found += parked_of(await durable.task(each, number, of_waiting), number)
        found += await parked_at_work(durable, views)
        if not view:
            found += [each async for each in _of_routes(durable)]
        aside = ParkedStreams(
            durable.now, sorted(found, key=lambda one: (one.since, one.view, one.stream))
        )
        if found:
            wanted = {(one.view, one.stream, one.sequence) for one in found}
            streams = {one.stream.encode() for one in found}
            tail = await durable.end_of(
                durable.topology.errors_topic, lambda record: record.key in streams
            )
            told = (reason_of(record) for record in tail.records)
            reasons = dict(one for one in told if one is not None and one[0] in wanted)
            aside.explain(reasons)
            if tail.cut and len(reasons) < len(wanted):
                aside.unseen.append(tail.cut)
        return aside


async def _of_routes(durable: DurableState) -> AsyncIterator[ParkedStream]:
    """What stages that route have parked, with reasons; the offset stands for the sequence."""
    for route in durable.topology.routes.values():
        for table in route.tables:
            for number in range(route.partitions):
                rows = await durable.rows(table.name, number, lambda key, _: key[:1] == b"b")
                for stream, keys in groupby(sorted(rows), lambda key: split_buffer_key(key)[0]):
                    first, *behind = keys
                    message, reason, since = parked_message(rows[first])
                    waiting = 1 + len(behind)
                    yield ParkedStream(
                        table.name, number, stream, since, message.offset, waiting, reason
                    )
