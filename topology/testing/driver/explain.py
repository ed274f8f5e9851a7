"""The account of a stream in a test driver, as `faust explain` gives it."""

from collections.abc import Iterable

from topology.declaration.policies import Ask
from topology.diagnostics.explain import Account, PendingRedelivery, StreamContext, account
from topology.diagnostics.explain.side_filters import side_filters
from topology.diagnostics.explain.side_records import SideRecords, requested
from topology.diagnostics.explain.stream_context import Request
from topology.engine.redelivery.records import not_before, revive
from topology.engine.view_task import ViewTask
from topology.model.event import Message
from topology.sequencer.progress import Progress, last_of
from topology.testing.driver.storage import DriverStorage

OWNER = "the test driver"


def explain(
    kept: DriverStorage, task: ViewTask, stream: str, *, now: int, unread: int = 0
) -> Account:
    """task: of the view. unread: messages of the stream that came while the view was halted."""
    context = context_of(kept, task, stream, now=now, unread=unread)
    return account(task, stream, StreamContext(**context))  # type: ignore[arg-type]


def context_of(
    kept: DriverStorage, task: ViewTask, stream: str, *, now: int, unread: int = 0
) -> dict[str, object]:
    """The fields of StreamContext that what is kept has something to say of."""
    topology, found = kept.topology, sides(kept, stream).of(task, stream, now)
    progress = task.state.progress(stream)
    head = next((event.sequence for event in task.state.waits(stream)), last_of(progress))
    held = isinstance(progress, Progress) and progress.held
    return {
        "now": now,
        "unread": unread,
        "owner": OWNER,
        "group": "Stable",
        "redelivering": _away(kept, task, stream),
        "late": found.late,
        "dead": found.dead,
        "failed": found.failed,
        "malformed": found.malformed,
        "blocked": found.blocked,
        "failure": found.failures.get(head) if held else None,
        "requested": tuple(_requested(kept, task, stream)),
        "command": f"faust -A {topology.name}",
    }


def sides(kept: DriverStorage, stream: str) -> SideRecords:
    """The records of the side topics that may be of a stream."""
    topology = kept.topology
    found: dict[str, list[Message]] = {}
    for name, mine in side_filters(stream).items():
        records = kept.topics[getattr(topology, f"{name}_topic")]
        found[name] = [record for record in records if mine(record)]
    return SideRecords(**found)  # type: ignore[arg-type]


def _away(kept: DriverStorage, task: ViewTask, stream: str) -> tuple[PendingRedelivery, ...]:
    """The stream's events in the redelivery topic, each once: it may have gone again."""
    view = task.view
    found: dict[int, PendingRedelivery] = {}
    for record in kept.topics[view.redeliver_topic][task.state.positions.redelivered :]:
        if record.key == stream.encode():
            for event in revive(view, [record], 0):
                attempt = getattr(event, "attempt", 0)
                found[event.sequence] = PendingRedelivery(
                    stream, event.sequence, attempt, not_before(record)
                )
    return tuple(found.values())


def _requested(kept: DriverStorage, task: ViewTask, stream: str) -> Iterable[Request]:
    """What the relay was asked for, where the view asks."""
    gap = task.view.gap
    records = kept.topics[gap.topic] if isinstance(gap, Ask) else ()
    return requested(task.view, [r for r in records if r.key == stream.encode()])
