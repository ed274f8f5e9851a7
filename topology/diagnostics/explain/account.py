"""The causal account of one stream in one view, from what is durable."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from topology.declaration.lanes import split_lane
from topology.declaration.policies.full import Redeliver
from topology.diagnostics.explain.causes import causes
from topology.diagnostics.explain.command_log import CommandRecord
from topology.diagnostics.explain.forecast import NextAction, forecast
from topology.diagnostics.explain.missing import Missing, missing
from topology.diagnostics.explain.passed import Passed, passed
from topology.diagnostics.explain.remedies import Remedy, remedies
from topology.diagnostics.explain.stream_context import (
    Arrival,
    Blocked,
    PendingRedelivery,
    Request,
    SetAside,
    StreamContext,
)
from topology.diagnostics.explain.stream_status import Situation, StreamStatus
from topology.engine.view_task import ViewTask
from topology.model.event import Event
from topology.sequencer.progress import Progress, last_of
from topology.sequencer.sequencer import can_go_on

SHOWN, LATE = 20, 5
"""Sequences, and late events, which are told one by one."""


@dataclass(frozen=True, slots=True)
class Account:
    """Why a stream is where it is.

    lane: of a view with lanes, in which `stream` is both. situation: the stream's own; causes: what
    holds it back, the outermost first. last: the last processed sequence, None if the view has seen
    nothing of it. waits: the first sequences that wait, of `ring` in the ring of `slots` slots and
    `spilled` beyond it. missing: the first ranges of `ranges`, noticed at `since` (ms, None if
    nothing waits). attempts, due: of the retry that it is held for. skipped: ranges that were given
    up and did not come since. epoch: how often the stream was rebuilt. asked: the first late events
    that it is to be rebuilt with. newest: its last message that is known of. next: what will
    happen. remedies: what would help. The rest as in StreamContext.
    """

    now: int
    stream: str
    lane: str | None
    view: str
    situation: Situation
    causes: tuple[str, ...]
    last: int | None
    ring: int
    slots: int
    spilled: int
    parked: int
    waits: tuple[int, ...]
    missing: tuple[Missing, ...]
    ranges: int
    since: int | None
    newest: Arrival | None
    skipped: tuple[tuple[int, int], ...]
    epoch: int
    asked: tuple[int, ...]
    late: tuple[Arrival, ...]
    attempts: int | None
    due: int | None
    failure: str | None
    halted: str | None
    away: tuple[PendingRedelivery, ...]
    partition: int
    position: int
    lag: int
    unread: int
    unkeyed: int
    owner: str | None
    group: str
    next: tuple[NextAction, ...]
    remedies: tuple[Remedy, ...]
    well: bool
    dead: tuple[SetAside, ...]
    dying: int
    lost: tuple[SetAside, ...]
    back: tuple[SetAside, ...]
    failed: tuple[SetAside, ...]
    malformed: tuple[SetAside, ...]
    pending: tuple[CommandRecord, ...]
    unseen: tuple[str, ...]
    limit: int | None
    read: int
    blocked: Blocked | None
    requested: tuple[Request, ...]


def account(task: ViewTask, stream: str, context: StreamContext) -> Account:
    """Explain a stream of a view. task: made of the view's rows, as they are durable."""
    known = task.known(stream)
    progress = task.progress(stream)
    last, waiting = last_of(progress), 0
    some: list[int] = []
    newest: Arrival | None = None
    if isinstance(progress, Progress):
        waiting = progress.waiting
        some, newest = _waits(task.waits(stream))
    goes_on = (
        isinstance(progress, Progress) and bool(waiting) and can_go_on(task.ordering, progress)
    )
    here = sorted({*some, *(a.sequence for a in context.away if a.sequence > last)})
    apart = passed(progress, last, here, context, task.ordering)
    there = sorted({*here, *(a.sequence or 0 for a in apart.ahead)})
    gaps, ranges = missing(task.ordering, last, there, can_go_on=goes_on)
    asked = sorted(task.late_events.streams.get(stream, ()))
    status = StreamStatus(
        task, stream, "unknown", progress, last, here[0] if here else None, waiting,
        gaps[0] if gaps else None, len(asked), apart,
    )  # fmt: skip
    situation = _situation(status, known, goes_on, context)
    status = replace(status, situation=situation)
    place = progress if isinstance(progress, Progress) else Progress(last)
    parked = waiting if situation == "parked" else 0
    return Account(
        now=context.now,
        stream=stream,
        lane=None if task.view.split is None else split_lane(stream)[1],
        view=task.view.name,
        situation=situation,
        causes=tuple(causes(status, context)),
        last=last if known else None,
        ring=len(place.ring or ()),
        slots=task.view.buffer,
        spilled=place.spilled,
        parked=parked,
        waits=tuple(some[:SHOWN]),
        missing=tuple(gaps),
        ranges=ranges,
        since=place.since if waiting else None,
        newest=context.newest or newest,
        skipped=apart.skipped,
        epoch=place.epoch,
        asked=tuple(asked[:SHOWN]),
        late=context.late[-LATE:],
        attempts=place.retry.attempts if place.retry else None,
        due=place.retry.due if place.retry else None,
        failure=context.failure if situation in ("parked", "retrying") else None,
        halted=task.halted,
        away=context.away,
        partition=context.partition,
        position=context.position,
        lag=context.lag,
        unread=context.unread,
        unkeyed=context.unkeyed,
        owner=context.owner,
        group=context.group,
        next=tuple(forecast(status, context)),
        remedies=tuple(remedies(status, context)),
        well=_well(situation, apart, context, task.halted),
        dead=apart.ahead[:SHOWN],
        dying=len(apart.ahead),
        lost=apart.lost[:SHOWN],
        back=apart.back[:SHOWN],
        failed=apart.failed[-SHOWN:],
        malformed=context.malformed[-SHOWN:],
        pending=context.pending,
        unseen=context.unseen,
        limit=task.view.full.limit if isinstance(task.view.full, Redeliver) else None,
        read=context.read,
        blocked=context.blocked,
        requested=context.requested[-SHOWN:],
    )


def _situation(
    status: StreamStatus, known: bool, goes_on: bool, context: StreamContext
) -> Situation:
    task, progress, apart = status.task, status.progress, status.passed
    if isinstance(progress, Progress) and progress.rebuild and not progress.held:
        return "rebuilding"
    if isinstance(progress, Progress) and progress.waiting:
        if progress.held:
            return "parked" if progress.retry is None else "retrying"
        if goes_on:
            return "released"
        if status.dead_first:
            return "dead"
        return "settling" if task.ordering.kind == "monotonic" else "waiting"
    if apart.ahead:
        return "dead"
    if context.away:
        return "redelivering"
    if context.unread:
        return "unread"
    if apart:
        return "incomplete"
    if context.malformed:
        return "malformed"
    if known:
        return "in order"
    return "forgotten" if context.read else "unknown"


def _well(situation: Situation, apart: Passed, context: StreamContext, halted: str | None) -> bool:
    fine = situation in ("in order", "settling", "released", "unread")
    whole = not (apart or apart.ahead or context.malformed or context.blocked)
    return fine and whole and not halted and context.owner is not None


def _waits(events: Iterable[Event]) -> tuple[list[int], Arrival | None]:
    """(the sequences that wait, the one of them that arrived last)."""
    sequences: list[int] = []
    newest: Event | None = None
    for event in events:
        sequences.append(event.sequence)
        if newest is None or event.arrived >= newest.arrived:
            newest = event
    if newest is None:
        return sequences, None
    message = newest.message
    return sequences, Arrival(
        newest.sequence, message.topic, message.partition, message.offset, newest.arrived
    )
