"""Handlers that work side by side, and whose effects are committed in order: how it is declared."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from topology.declaration.lanes import Lane
from topology.declaration.policies.error import ErrorPolicy, OnError, Park, Retry
from topology.declaration.policies.late import OnLate, RebuildStream
from topology.declaration.source import Source
from topology.declaration.worker_kinds import RunIn, check_not_pulled, checked_batch, checked_run_in
from topology.model.batches import Batch, by_event
from topology.model.changes import acollected, collected
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.model.names import checked_name, misfit, plain_function
from topology.model.work_event import WorkEvent, work_event
from topology.ordered_commit import CommitRules, Touched, WhenOlderIsOpen

Commit = Literal["arrival", "stream"]
Scope = Literal["partition", "topic", "global"]
Touches = Callable[[Event[Any]], Touched | None]
"""The keys that an event touches, None where that is not known."""
Compensation = Callable[[Any, str], Any]
"""A function, sync or async, of the arguments of an intent and of its event's idempotency key."""

WORKERS = 1_000
"""The most workers of a view in a partition."""
PROCESSES = 128
"""The most of them that are processes."""


@dataclass(frozen=True, slots=True)
class ParallelWork:
    """How a view's handler works side by side.

    Attributes:
        workers: attempts side by side, in each partition.
        rules: whose turn it is, and what is done when an older event lasts.
        scope: which events are in one order: those of a partition, or all of the view.
        run_in: where handlers run.
        touches: the keys that an event touches; None: they are learned.
        database: the name of the database that connections are lent to, None for none.
        compensations: name → what undoes the call of an attempt that comes to nothing.
        batch: how many events the handler takes at once; None: one, by itself.
    """

    workers: int
    rules: CommitRules
    scope: Scope = "partition"
    run_in: RunIn = "tasks"
    touches: Touches | None = None
    database: str | None = None
    compensations: Mapping[str, Compensation] = field(default_factory=dict)
    batch: Batch | None = None

    def __str__(self) -> str:
        lent = f", database {self.database}" if self.database else ""
        return f"workers {self.workers} in {self.run_in}, commit by {self.rules.order}{lent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOptions:
    """What `view` and `parallel` are given of it, None where they are given nothing."""

    workers: int | None
    commit: Commit | None = None
    start_order: Any = None
    within_stream: str | None = None
    older: WhenOlderIsOpen | None = None
    time_limit: float | None = None
    touches: Touches | None = None
    run_in: RunIn | None = None
    scope: Scope | None = None
    database: str | None = None
    compensations: Mapping[str, Compensation] | None = None
    batch: int | Batch | None = None


def checked_work(
    what: str, options: WorkOptions, handler: Any, *, stateful: bool, is_async: bool
) -> ParallelWork | None:
    """How a view works side by side, None if it does not. Raises DeclarationError.

    what: the view, for errors.
    """
    workers = options.workers
    if workers is None:
        names = [name for name in WorkOptions.__slots__ if getattr(options, name) is not None]
        if names:
            raise DeclarationError(
                f"{what}: {names[0]}={getattr(options, names[0])!r} without workers; say how many "
                f"handlers work side by side, as in workers=16, or leave {names[0]} out"
            )
        return None
    if isinstance(workers, bool) or not isinstance(workers, int) or not 1 <= workers <= WORKERS:
        raise DeclarationError(f"{what}: workers={workers!r}: must be an int from 1 to {WORKERS}")
    run_in = checked_run_in(what, options.run_in, handler, is_async=is_async)
    if run_in == "processes" and workers > PROCESSES:
        raise DeclarationError(
            f"{what}: workers={workers} with run_in='processes': at most {PROCESSES} processes in "
            "each partition; give fewer workers"
        )
    batch = checked_batch(what, options.batch)
    scope = "partition" if options.scope is None else options.scope
    if scope not in ("partition", "topic", "global"):
        raise DeclarationError(f"{what}: scope={scope!r}: use 'partition', 'topic' or 'global'")
    if options.within_stream == "parallel" and stateful:
        raise DeclarationError(
            f"{what}: within_stream='parallel' with a handler that takes a state: each event of a "
            "stream needs the state that the one before it leaves; leave within_stream out, or "
            "make it handler(event)"
        )
    if options.touches is not None:
        plain_function(f"{what}: touches={options.touches!r}", options.touches, "event")
    if callable(start := options.start_order):
        plain_function(f"{what}: start_order={start!r}", start, "open event")
    if options.database is not None:
        checked_name("database", options.database)
    undo = {} if options.compensations is None else options.compensations
    if not isinstance(undo, Mapping):
        raise DeclarationError(f"{what}: compensations={undo!r}; give name → function")
    compensations = dict(undo)
    for name, function in compensations.items():
        if not isinstance(name, str) or not callable(function) or misfit(function, 2):
            raise DeclarationError(
                f"{what}: compensations={{{name!r}: {function!r}}}; give name → a function of "
                "(arguments, idempotency_key)"
            )
    if run_in not in ("tasks", "threads") and (options.database or compensations):
        given_to = "database" if options.database else "compensations"
        raise DeclarationError(
            f"{what}: {given_to}= with run_in={run_in!r}: another process has neither the "
            "connection nor the view's table; use run_in='tasks' or 'threads', or leave it out"
        )
    if batch is not None and (options.database or compensations):
        given_to = "database" if options.database else "compensations"
        raise DeclarationError(
            f"{what}: {given_to}= with batch=: what an event did is undone or run again for it "
            "alone; leave one of the two out"
        )
    given = {
        "batch": None if batch is None else batch.most,
        "batch_of": None if batch is None else batch.of,
        "order": options.commit,
        "start": options.start_order,
        "within_stream": options.within_stream,
        "when_older_is_open": options.older,
        "time_limit": options.time_limit,
        # In its own transaction an event would not see what the one before it has staged.
        "upon_staged": False if options.database else None,
    }
    try:
        rules = CommitRules(**{name: value for name, value in given.items() if value is not None})
    except DeclarationError as error:
        raise DeclarationError(f"{what}: {error}") from None
    return ParallelWork(
        workers, rules, scope, run_in, options.touches, options.database, compensations, batch
    )


def check_fits(
    what: str,
    work: ParallelWork | None,
    source: Source,
    late: OnLate,
    lane: Lane | None,
    error: OnError,
) -> None:
    """Whether a view that works side by side may have such policies. Raises DeclarationError."""
    if work is None:
        return
    if isinstance(late, RebuildStream):
        raise DeclarationError(
            f"{what}: late={late!r} with workers: a stream cannot be rebuilt while its events are "
            "in work and not committed; use late_topic(), or leave workers out"
        )
    if work.rules.within_stream == "parallel" and may_park(error):
        raise DeclarationError(
            f"{what}: error={error!r} with within_stream='parallel': what is set aside of a stream "
            "has no order that it could be redriven in; use advance(), retry(…) or halt(), or "
            "leave within_stream out"
        )
    if work.scope == "topic" and len(source.topics) > 1:
        raise DeclarationError(
            f"{what}: scope='topic', but source {source.name!r} merges {len(source.topics)} "
            "topics; use scope='global', or a source and a view for each topic"
        )
    if lane is not None:
        raise DeclarationError(
            f"{what}: lane={lane!r} with workers; give the stream the lane's id in the inspector, "
            "or leave workers out"
        )


def may_park(error: OnError) -> bool:
    """Whether an error policy may set streams aside; one of the user's own may."""
    return isinstance(error, Park | ErrorPolicy) or (
        isinstance(error, Retry) and isinstance(error.then, Park)
    )


def attempting(handler: Any, view: str, batch: Batch | None = None) -> Any:
    """A handler that is given its events as attempts, whoever runs it."""

    @functools.wraps(handler)
    def run(event: Any, *state: Any) -> Any:
        if batch is None:
            if event.__class__ is not WorkEvent:
                check_not_pulled(handler)
                event = work_event(event, view)
            return handler(event, *state)
        if isinstance(event, list):
            return handler(event, *state)
        # Whoever handles one event after the other gives batches of one.
        check_not_pulled(handler)
        event = work_event(event, view)
        if batch.of == "any":
            state = tuple({event.stream: each} for each in state)
        result = handler([event], *state)
        if hasattr(result, "__aiter__"):
            return _unpaired_later(event, acollected(result))
        if inspect.isawaitable(result):
            return _unpaired_later(event, result)
        return by_event([event], collected(result or ()))[0]

    return run


async def _unpaired_later(event: WorkEvent, items: Awaitable[Any]) -> list[Any]:
    return by_event([event], collected(await items or ()))[0]
