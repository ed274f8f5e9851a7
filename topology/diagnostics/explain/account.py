"""The causal account of one stream in one view, from what is durable."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from topology.declaration.lanes import split_lane
from topology.declaration.policies.full import Redeliver
from topology.diagnostics.explain.causes import causes
from topology.diagnostics.explain.forecast import Next, nexts
from topology.diagnostics.explain.missing import Missing, missing
from topology.diagnostics.explain.passed import Passed, passed
from topology.diagnostics.explain.remedies import Remedy, remedies
from topology.diagnostics.explain.stream_context import (
    Around,
    Arrival,
    Away,
    Blocked,
    Request,
    SetAside,
)
from topology.diagnostics.explain.stream_status import Situation, Standing
from topology.diagnostics.explain.told import Told
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
    happen. remedies: what would help. The rest as in Around.
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
    away: tuple[Away, ...]
    partition: int
    position: int
    lag: int
    unread: int
    unkeyed: int
    owner: str | None
    group: str
    next: tuple[Next, ...]
    remedies: tuple[Remedy, ...]
    well: bool
    dead: tuple[SetAside, ...]
    dying: int
    lost: tuple[SetAside, ...]
    back: tuple[SetAside, ...]
    failed: tuple[SetAside, ...]
    malformed: tuple[SetAside, ...]
    pending: tuple[Told, ...]
    unseen: tuple[str, ...]
    limit: int | None
    read: int
    blocked: Blocked | None
    requested: tuple[Request, ...]


def account(task: ViewTask, stream: str, around: Around) -> Account:
    """Explain a stream of a view. task: made of the view's rows, as they are durable."""
    known = task.state.known(stream)
    progress = task.state.progress(stream)
    last, waiting = last_of(progress), 0
    some: list[int] = []
    newest: Arrival | None = None
    if isinstance(progress, Progress):
        waiting = progress.waiting
        some, newest = _waits(task.state.waits(stream))
    goes_on = (
        isinstance(progress, Progress)
        and bool(waiting)
        and can_go_on(task.state.ordering, progress)
    )
    here = sorted({*some, *(a.sequence for a in around.away if a.sequence > last)})
    apart = passed(progress, last, here, around, task.state.ordering)
    there = sorted({*here, *(a.sequence or 0 for a in apart.ahead)})
    gaps, ranges = missing(task.state.ordering, last, there, can_go_on=goes_on)
    asked = sorted(task.late_events.streams.get(stream, ()))
    standing = Standing(
        task, stream, "unknown", progress, last, here[0] if here else None, waiting,
        gaps[0] if gaps else None, len(asked), apart,
    )  # fmt: skip
    situation = _situation(standing, known, goes_on, around)
    standing = replace(standing, situation=situation)
    place = progress if isinstance(progress, Progress) else Progress(last)
    parked = waiting if situation == "parked" else 0
    return Account(
        now=around.now,
        stream=stream,
        lane=None if task.view.split is None else split_lane(stream)[1],
        view=task.view.name,
        situation=situation,
        causes=tuple(causes(standing, around)),
        last=last if known else None,
        ring=len(place.ring or ()),
        slots=task.view.buffer,
        spilled=place.spilled,
        parked=parked,
        waits=tuple(some[:SHOWN]),
        missing=tuple(gaps),
        ranges=ranges,
        since=place.since if waiting else None,
        newest=around.newest or newest,
        skipped=apart.skipped,
        epoch=place.epoch,
        asked=tuple(asked[:SHOWN]),
        late=around.late[-LATE:],
        attempts=place.retry.attempts if place.retry else None,
        due=place.retry.due if place.retry else None,
        failure=around.failure if situation in ("parked", "retrying") else None,
        halted=task.halted,
        away=around.away,
        partition=around.partition,
        position=around.position,
        lag=around.lag,
        unread=around.unread,
        unkeyed=around.unkeyed,
        owner=around.owner,
        group=around.group,
        next=tuple(nexts(standing, around)),
        remedies=tuple(remedies(standing, around)),
        well=_well(situation, apart, around, task.halted),
        dead=apart.ahead[:SHOWN],
        dying=len(apart.ahead),
        lost=apart.lost[:SHOWN],
        back=apart.back[:SHOWN],
        failed=apart.failed[-SHOWN:],
        malformed=around.malformed[-SHOWN:],
        pending=around.pending,
        unseen=around.unseen,
        limit=task.view.full.limit if isinstance(task.view.full, Redeliver) else None,
        read=around.read,
        blocked=around.blocked,
        requested=around.requested[-SHOWN:],
    )


def _situation(standing: Standing, known: bool, goes_on: bool, around: Around) -> Situation:
    task, progress, apart = standing.task, standing.progress, standing.passed
    if isinstance(progress, Progress) and progress.rebuild and not progress.held:
        return "rebuilding"
    if isinstance(progress, Progress) and progress.waiting:
        if progress.held:
            return "parked" if progress.retry is None else "retrying"
        if goes_on:
            return "released"
        if standing.dead_first:
            return "dead"
        return "settling" if task.state.ordering.kind == "monotonic" else "waiting"
    if apart.ahead:
        return "dead"
    if around.away:
        return "redelivering"
    if around.unread:
        return "unread"
    if apart:
        return "incomplete"
    if around.malformed:
        return "malformed"
    if known:
        return "in order"
    return "forgotten" if around.read else "unknown"


def _well(situation: Situation, apart: Passed, around: Around, halted: str | None) -> bool:
    fine = situation in ("in order", "settling", "released", "unread")
    whole = not (apart or apart.ahead or around.malformed or around.blocked)
    return fine and whole and not halted and around.owner is not None


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
