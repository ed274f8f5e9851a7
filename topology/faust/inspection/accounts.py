"""Explain a stream: its view's rows, and what the topics around it say."""

from dataclasses import replace
from typing import Any

from aiokafka import TopicPartition
from aiokafka.partitioner import DefaultPartitioner

from topology.declaration.lanes import joined_lane, split_lane
from topology.declaration.policies import Ask
from topology.declaration.view import View
from topology.diagnostics.explain import Account, StreamContext, account, of_lanes, of_stream
from topology.diagnostics.explain.fold import with_keys
from topology.diagnostics.explain.side_filters import side_filters
from topology.diagnostics.explain.side_records import SideRecords, requested
from topology.diagnostics.explain.stream_context import Request
from topology.diagnostics.explain.work_tally import StreamWork
from topology.engine.state.lane_names import lanes_of, lanes_told, readings
from topology.engine.state.rows import progress_key, redriven_key
from topology.engine.view_task import ViewTask
from topology.faust.inspection.command_log import pending
from topology.faust.inspection.consumer_group import ConsumerGroup, consumer_group
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.inputs import Inputs
from topology.faust.inspection.named import views_of
from topology.faust.inspection.similar_streams import similar_streams
from topology.faust.inspection.stream_index import token
from topology.faust.inspection.work import stream_work
from topology.faust.kafka.clients import partition_count
from topology.sequencer.progress import Progress, last_of

ASKED = 20_000
"""Offsets at the end of what a relay reads, in which the view's requests are looked for."""


async def explain(
    app: Any, stream: str, view: str = "", *, command: str = "faust -A app",
    scan: int | None = None,
) -> list[Account]:  # fmt: skip
    """Explain why a stream is where it is, in one view or in all.

    A view with lanes has an account for each lane of the stream, or the one of a lane that is named
    (`3|EUR`).

    Args:
        app: what `compile` made; no worker is needed, and none is disturbed.
        stream: the id as the source writes it.
        view: only this one; all unless given.
        command: what the command lines that would help begin with.
        scan: offsets to read at the end of a topic; unless given, as many as take five seconds.

    Returns:
        An account for each view, and each lane, that knows the stream; one if none does.

    Raises:
        KeyError: there is no such view.
        TopicMissing: no worker of the topology has run yet.
    """
    views = views_of(app, view)
    async with DurableState(app, scan=scan) as durable:
        group, found = await consumer_group(app), []
        await durable.find_held({each.of.name: each.of for each in views}.values())
        looks: dict[str, _StreamInspection] = {}

        def look_for(id: str) -> _StreamInspection:
            if id not in looks:
                looks[id] = _StreamInspection(durable, group, id, command)
            return looks[id]

        for each in views:
            accounts: list[Account] = []
            for reading in readings(each, stream):
                own = reading if each.split is None else split_lane(reading)[0]
                accounts = await look_for(own).at(each)
                if each.split is not None and "|" in reading:
                    # One lane, as the view and its commands name it.
                    accounts = [one for one in accounts if one.stream == reading]
                if any(one.situation != "unknown" for one in accounts):
                    break
            found += accounts or await look_for(each.of.stream_id(stream)).at(each)
        if all(account.situation == "unknown" for account in found):
            similar = await similar_streams(durable, views, stream)
            found = [replace(a, context=replace(a.context, similar=similar)) for a in found]
        return found


class _StreamInspection:
    """Looks at one stream, at what is common to several views only once."""

    def __init__(
        self, durable: DurableState, group: ConsumerGroup, stream: str, command: str
    ) -> None:
        self._durable = durable
        self._group = group
        self._stream = stream
        self._command = command
        self._inputs = Inputs(durable, stream)
        self._found: SideRecords | None = None

    async def at(self, view: View) -> list[Account]:
        """The accounts of a view: of the partition that has the stream, or each that may.

        In a view with lanes, one for each lane of the stream.
        """
        every = list(range(view.of.partitions))
        likely = DefaultPartitioner()(self._stream.encode(), every, every)
        # Who keyed the records of a keyed source, and how, is not known here.
        others = [number for number in every if number != likely] if view.of.keyed else []
        for number in (likely, *others):
            task = await self._task(view, number)
            if number == likely:
                first = task
            known = await self._known(task)
            if not known and (work := await self._work(view, number)) and work.parked:
                # The first stage has forgotten it.
                known = [self._stream]
            if known:
                return [await self._account(task, number, stream) for stream in known]
        found = [await self._account(first, likely, self._stream)]
        for number in others:
            task = await self._task(view, number)
            own = task.state.positions.input
            if (await self._inputs.input(view, number, own, self._stream)).seen:
                found.append(await self._account(task, number, self._stream))
        return [each for each in found if each.situation != "unknown"] or found[:1]

    async def _task(self, view: View, number: int) -> ViewTask:
        mine = (of_stream if view.split is None else of_lanes)(self._stream)
        again = frozenset(redriven_key(record.offset) for record in (await self._sides()).dead)
        stream = self._stream if view.split is None else joined_lane(self._stream, "")
        tokens = [token(progress_key(stream)), *again]
        return await self._durable.task(view, number, with_keys(mine, again), tokens)

    async def _known(self, task: ViewTask) -> list[str]:
        """The stream as the view knows it: its lanes, where it has lanes."""
        if task.view.split is None:
            return [self._stream] if task.state.known(self._stream) else []
        sides = await self._sides()
        told = lanes_told(task.view, self._stream, (*sides.dead, *sides.errors))
        return sorted({*lanes_of(task.state.table, self._stream), *told})

    async def _work(self, view: View, number: int) -> StreamWork | None:
        """The stream in the second stage of a view with workers."""
        return await stream_work(self._durable, self._group, view, number, self._stream)

    async def _sides(self) -> SideRecords:
        """What the side topics have that may be of the stream."""
        if self._found is None:
            durable, found = self._durable, SideRecords()
            for name, mine in side_filters(self._stream).items():
                tail = await durable.end_of(getattr(durable.topology, f"{name}_topic"), mine)
                getattr(found, name).extend(tail.records)
                if tail.cut:
                    found.unseen.append(tail.cut)
            self._found = found
        return self._found

    async def _account(self, task: ViewTask, partition: int, stream: str) -> Account:
        durable, view = self._durable, task.view
        inputs = self._inputs
        # In this order, what is re-keyed in between is seen twice, rather than not at all.
        unkeyed = await inputs.unkeyed(view, stream)
        source = await inputs.input(view, partition, task.state.positions.input, stream)
        position = source.position(task.state.positions.input)
        away, cut = await durable.away(task, partition, stream)
        told = await pending(durable, view, partition, task.state.positions.commands)
        sides = (await self._sides()).of(task, stream, durable.now)
        progress = task.state.progress(stream)
        held = isinstance(progress, Progress) and progress.held
        head = next((event.sequence for event in task.state.waits(stream)), last_of(progress))
        work = await self._work(view, partition)
        if work is not None and work.parked and not held:
            held, head = True, work.parked[0]
        context = StreamContext(
            now=durable.now,
            partition=partition,
            position=position,
            end=source.span.written,
            unkeyed=unkeyed.offsets,
            owner=self._group.owners.get(source.partition),
            group=self._group.state,
            newest=unkeyed.newest or source.newest,
            unread=sum(1 for offset in source.seen if offset >= position) + unkeyed.mine,
            hidden=bool(source.unseen or unkeyed.unseen),
            looked=source.looked,
            read=sum(1 for offset in source.seen if offset < position),
            blocked=sides.blocked,
            work=work,
            requested=await self._requested(view, stream),
            redelivering=tuple(away),
            late=sides.late,
            dead=sides.dead,
            failed=sides.failed,
            malformed=sides.malformed,
            pending=tuple(each for each in told if each.stream in (None, stream)),
            failure=sides.failures.get(head) if held else None,
            command=self._command,
            unseen=(*sides.unseen, *source.unseen, *unkeyed.unseen, *cut),
        )
        return account(task, stream, context)

    async def _requested(self, view: View, stream: str) -> tuple[Request, ...]:
        """What the relay was asked for, where the view asks."""
        if not isinstance(view.gap, Ask):
            return ()
        durable, key = self._durable, stream.encode()
        found: list[Request] = []
        for number in range(await partition_count(durable.app, view.gap.topic) or 0):
            partition = TopicPartition(view.gap.topic, number)
            tail = await durable.end_of(partition, lambda record: record.key == key, most=ASKED)
            found += requested(view, tail.records)
        return tuple(sorted(found, key=lambda request: request.when))
