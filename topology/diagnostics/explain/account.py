"""The causal account of one stream in one view, from what is durable."""

from dataclasses import dataclass, fields, replace
from typing import Any

from topology.declaration.lanes import split_lane
from topology.diagnostics.explain.causes import causes
from topology.diagnostics.explain.forecast import NextAction, forecast
from topology.diagnostics.explain.missing import missing
from topology.diagnostics.explain.remedies import Remedy, remedies
from topology.diagnostics.explain.stream_context import (
    Arrival,
    StreamContext,
)
from topology.diagnostics.explain.stream_place import StreamPlace, waits_of
from topology.diagnostics.explain.stream_status import Situation, StreamStatus
from topology.diagnostics.explain.went_on_without import Passed, can_be_put_back, passed
from topology.engine.view_task import ViewTask
from topology.sequencer.progress import Progress, last_of

SHOWN, LATE = 20, 5
"""Sequences, and late events, which are told one by one."""


@dataclass(frozen=True, slots=True)
class Account:
    """Why a stream is where it is in a view.

    Attributes:
        lane: of a view with lanes, in which `stream` is both.
        situation: the stream's own state; what holds it back is in `causes`, the outermost first.
        place: how far the view is in the stream.
        passed: what the stream went on without, and what of it lies in the dead topic.
        context: what the topics and the group say of the stream.
        halted: why the view is halted, None if it is not.
        limit: how often an event may be redelivered, None if that is not limited.
        next: what happens next, in order.
        remedies: the commands that would help, the first that is needed first.
        well: whether nothing has to be done.
    """

    stream: str
    lane: str | None
    view: str
    situation: Situation
    causes: tuple[str, ...]
    place: StreamPlace
    passed: Passed
    context: StreamContext
    halted: str | None
    limit: int | None
    next: tuple[NextAction, ...]
    remedies: tuple[Remedy, ...]
    well: bool

    def helps(self, name: str) -> bool:
        """Whether a command of that name is among the remedies."""
        return any(
            each.command.startswith(f"{self.context.command} {name} ") for each in self.remedies
        )

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON: the parts' fields side by side, and long lists cut."""
        own, context, passed = fields_of(self), self.context, self.passed
        for part in ("place", "passed", "context"):
            del own[part]
        return {
            **own,
            **fields_of(self.place),
            **fields_of(context),
            "lag": context.lag,
            "late": context.late[-LATE:],
            "malformed": context.malformed[-SHOWN:],
            "requested": context.requested[-SHOWN:],
            "dead": passed.ahead[:SHOWN],
            "dead_count": len(passed.ahead),
            "lost": passed.lost[:SHOWN],
            "back": passed.back[:SHOWN],
            "failed": passed.failed[-SHOWN:],
            "skipped": passed.skipped,
        }


def fields_of(part: Any) -> dict[str, Any]:
    """The fields of a dataclass, none of which is turned into anything."""
    return {each.name: getattr(part, each.name) for each in fields(part)}


def account(task: ViewTask, stream: str, context: StreamContext) -> Account:
    """Explain a stream of a view. task: made of the view's rows, as they are durable."""
    known = task.state.known(stream)
    progress = task.state.progress(stream)
    last, waiting = last_of(progress), 0
    some: list[int] = []
    newest: Arrival | None = None
    if isinstance(progress, Progress):
        waiting = progress.waiting
        some, newest = waits_of(task.state.waits(stream))
    goes_on = (
        isinstance(progress, Progress) and bool(waiting) and task.state.ordering.can_go_on(progress)
    )
    here = sorted({*some, *(a.sequence for a in context.redelivering if a.sequence > last)})
    apart = passed(progress, last, here, context, task.state.ordering)
    there = sorted({*here, *(a.sequence or 0 for a in apart.recoverable)})
    if apart.ahead and not can_be_put_back(apart.ahead[-1]):
        end = (apart.ahead[-1].sequence or 0) + task.state.ordering.step
        there += [end] if end > max(there, default=last) else []
    gaps, ranges = missing(task.state.ordering, last, there, can_go_on=goes_on)
    asked = sorted(task.late_events.streams.get(stream, ()))
    status = StreamStatus(
        task, stream, "unknown", progress, last, here[0] if here else None, waiting,
        gaps[0] if gaps else None, len(asked), apart,
    )  # fmt: skip
    situation = _situation(status, known, goes_on, context)
    work = context.work
    if work is not None and work.parked and situation != "parked":
        situation, waiting = "parked", len(work.parked)
        status = replace(status, head=work.parked[0])
    elif work is not None and (work.arrived or not work.counted):
        unknown = ("forgotten", "unknown") if work.arrived else ()
        situation = "arrived" if situation in ("in order", *unknown) else situation
    status = replace(status, situation=situation)
    at = progress if isinstance(progress, Progress) else Progress(last)
    held = situation in ("parked", "retrying")
    return Account(
        stream,
        None if task.view.split is None else split_lane(stream)[1],
        task.view.name,
        situation,
        tuple(causes(status, context)),
        StreamPlace(
            last=last if known else None,
            ring=len(at.ring or ()),
            slots=task.view.buffer,
            spilled=at.spilled,
            parked=waiting if situation == "parked" else 0,
            waits=tuple(some[:SHOWN]),
            missing=tuple(gaps),
            ranges=ranges,
            since=at.since if waiting else None,
            attempts=at.retry.attempts if at.retry else None,
            due=at.retry.due if at.retry else None,
            epoch=at.epoch,
            rebuilt_with=tuple(asked[:SHOWN]),
        ),
        apart,
        replace(
            context,
            newest=context.newest or newest,
            failure=context.failure if held else None,
        ),
        halted=task.halted or (work.halted if work is not None else None),
        limit=task.view.full.limit,
        next=tuple(forecast(status, context)),
        remedies=tuple(remedies(status, context)),
        well=_well(situation, apart, context, task.halted),
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
        return "settling" if task.state.ordering.settles else "waiting"
    if apart.ahead:
        return "dead"
    if context.redelivering:
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
    fine = situation in ("in order", "settling", "released", "unread", "arrived")
    work = context.work
    if work is not None and (work.halted or work.away or work.owner is None):
        return False
    whole = not (apart or apart.ahead or context.malformed or context.blocked)
    return fine and whole and not halted and context.owner is not None
