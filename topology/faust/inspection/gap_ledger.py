"""The gap ledger of a topology."""

from collections import defaultdict
from typing import Any

from aiokafka import TopicPartition

from topology.diagnostics.explain import Ledger, WaitingStreams, of_waiting, open_gaps
from topology.diagnostics.explain.bad_news import UNASSIGNED, troubles
from topology.diagnostics.explain.side_records import dead_of
from topology.diagnostics.explain.waiting_streams import knows_by_sequences
from topology.diagnostics.explain.went_on_without import by_hand, can_be_put_back
from topology.diagnostics.explain.work_tally import committed_counts, work_troubles
from topology.engine.view_task import ViewTask
from topology.faust.inspection.consumer_group import consumer_group
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.named import views_of
from topology.faust.inspection.tallies import totals_of
from topology.faust.inspection.work import stages_alone, work_tallies
from topology.model.counts import Counts
from topology.model.event import Message

LIMIT = 50
"""Gaps that are listed unless told otherwise."""


async def gaps(app: Any, *, view: str = "", limit: int = LIMIT, scan: int | None = None) -> Ledger:
    """List what is missing in all views, or in one, the oldest gap first.

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        view: only this one; all unless given.
        limit: gaps to list at most; the rest is counted.
        scan: offsets to read at the end of a topic; unless given, as many as take five seconds.

    Returns:
        The gaps, what else is not well with the views, and what was not looked at.

    Raises:
        KeyError: there is no such view.
        TopicMissing: no worker of the topology has run yet.
    """
    views = views_of(app, view)
    async with DurableState(app, scan=scan) as durable:
        ledger, group = Ledger(durable.now, limit), await consumer_group(app)
        sources = {each.of.name: each.of for each in views}.values()
        await durable.find_held(sources)
        dead: dict[str, dict[str, set[int]]] | None = None
        for each in views:
            counts, halted, unassigned = Counts(), {}, []
            for number in range(each.of.partitions):
                waiting: WaitingStreams | None = None
                if knows_by_sequences(each.ordering):
                    task, waiting = await durable.waiting(each, number)
                else:
                    task = await durable.task(each, number, of_waiting)
                source = TopicPartition(each.of.by_stream, number)
                counts += task.state.counts
                if task.halted:
                    halted[number] = task.halted
                if source not in group.owners:
                    unassigned.append(number)
                ledger.unread += await _unread(durable, source, task)
                held = task.state.counts.waiting + task.state.counts.parked
                if task.state.counts.dead and held and dead is None:
                    dead = await _dead(durable, ledger.unseen)
                gone, cut = await durable.away(task, number) if held else ([], [])
                ledger.unseen += cut
                away: defaultdict[str, list[int]] = defaultdict(list)
                for event in gone:
                    away[event.stream].append(event.sequence)
                died = (dead or {}).get(each.name, {})
                ledger.enter(
                    open_gaps(task, number, away, died)
                    if waiting is None
                    else waiting.gaps(each, number, task.state.ordering, away, died)
                )
            work = await work_tallies(durable, group, each, count=False)
            counts = committed_counts(counts, work)
            ledger.troubles += troubles(each.name, counts, halted, unassigned)
            ledger.troubles += work_troubles(each.name, work)
        if not view:
            alone = await stages_alone(durable, group, count=False)
            ledger.troubles += [trouble for stage in alone for trouble in stage.troubles]
            for route in durable.topology.routes.values():
                told = (await totals_of(durable, group, route)).troubles()
                ledger.troubles += [each for each in told if each.place in ("parked", UNASSIGNED)]
        for declared in sources:
            ledger.unread += await durable.unkeyed(declared)
        return ledger


async def _unread(durable: DurableState, source: TopicPartition, task: ViewTask) -> int:
    """How many offsets of its input a view has before it."""
    span = (await durable.span([source]))[source]
    position = task.state.positions.input
    if position is None:
        committed = (await durable.committed([source])).get(source)
        position = span.first if committed is None else committed.offset
    return max(0, span.written - max(position, span.first))


async def _dead(durable: DurableState, unseen: list[str]) -> dict[str, dict[str, set[int]]]:
    """View → stream → sequences in the dead topic; what a command sent there is not waited for, and
    what cannot be put back is missing."""
    found: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))

    def note(record: Message) -> bool:
        for view, stream, each in dead_of(record):
            if can_be_put_back(each) and not by_hand(each):
                found[view][stream].add(each.sequence or 0)
        return False

    tail = await durable.end_of(durable.topology.dead_topic, note)
    unseen += [tail.cut] if tail.cut else []
    return {view: dict(streams) for view, streams in found.items()}
