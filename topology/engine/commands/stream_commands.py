"""The commands to one stream of a view: skip, redrive, unpark, drop."""

from dataclasses import asdict

from topology.declaration.ordered_stage import FORCED_DROP
from topology.engine.commands.command import UNKNOWN_STREAM, Command, CommandRefused, CommandResult
from topology.engine.commands.dry_run import DryRun, dry_run
from topology.engine.commit_unit import CommitUnit
from topology.engine.redelivery.records import bury
from topology.engine.release_record import tell_workers
from topology.engine.state.lane_names import ids_of
from topology.engine.state.view_state import delete_rows
from topology.engine.view_task import ViewTask
from topology.model.counted import counted
from topology.model.counts import saturated
from topology.model.event import Event
from topology.model.partition_table import Row
from topology.model.printable import printable
from topology.sequencer.progress import Progress, last_of

NAMED = 10
"""Streams that are named where a command may mean any of them."""


def skip(task: ViewTask, command: Command, unit: CommitUnit) -> CommandResult:
    """Give up the sequence that a stream waits for. What comes of it later is late.

    Forced, everything up to the sequence is given up; events of it that wait go to the dead topic.
    """
    stream, progress = _stream(task, command)
    sequence, view, ordering = command.sequence, task.view, task.state.ordering
    last, add = last_of(progress), task.state.ordering.step
    where = _of(task, stream)
    if not ordering.counts:
        raise CommandRefused(
            f"{where} is not in contiguous order: no sequence of it can be missing"
        )
    if sequence is None:
        raise CommandRefused(f"{where}: skip needs the sequence; the next one is {last + add}")
    _not_rebuilding(task, stream)
    if isinstance(progress, Progress) and progress.held:
        raise CommandRefused(
            f"{where} is parked at {last + add}; use unpark to pass it, or redrive"
        )
    if sequence <= last:
        raise CommandRefused(
            f"{where} is at {last}: {sequence} is passed already, nothing waits for it"
        )
    if (sequence - last) % add:
        raise CommandRefused(
            f"{where} counts {last + add}, {last + 2 * add}, …: {sequence} is none of them"
        )
    if sequence - last > ordering.jump:
        raise CommandRefused(
            f"{where} is at {last}: {sequence} is {(sequence - last) // add} sequences ahead; "
            f"contiguous(…, jump={ordering.jump // add}) lets a stream be so many ahead at most"
        )
    lost: list[Event] = []
    for event in task.state.waits(stream):  # of a long backlog no more than is meant
        if event.sequence > sequence:
            break
        lost.append(event)
    if command.only_missing and lost:
        # It has come since the command was given.
        sequence, lost = lost[0].sequence - add, []
        if sequence == last:
            raise CommandRefused(f"{where} is at {last}, and {last + add} is there: it goes on")
    missing = (sequence - last) // add - len(lost)
    if not command.force:
        if lost:
            raise CommandRefused(
                f"{where} would lose {counted(len(lost), 'waiting event')} up to {sequence} to "
                f"{view.dead_topic}; the missing one is {last + add}; force it if that is meant"
            )
        if missing > 1:
            raise CommandRefused(
                f"{where} waits for {last + add}; to skip {sequence} skips {missing} sequences; "
                "skip them one by one, or force it"
            )
    facts = {"last": sequence, "skipped": missing, "dead": len(lost)}
    if command.dry_run:
        told = f"{where} would go on behind {sequence}; {missing} skipped, {len(lost)} lost"
        return CommandResult(True, told, facts)
    progress = Progress(last) if isinstance(progress, int) else progress.copy()
    for event in lost:
        bury(view, event, f"{command.who} skipped up to {sequence}", unit)
    # What waited is passed like what is missing: it comes late, if it is put back or comes again.
    progress.add_skipped(last + add, sequence)
    progress.last = sequence
    _take_out(progress, lost)
    task.state.counts.skipped = saturated(task.state.counts.skipped + missing + len(lost))
    task.state.counts.dead += len(lost)
    task.state.counts.waiting -= len(lost)
    moved(task, stream, progress, lost, unit)
    return CommandResult(
        True,
        f"{where} goes on behind {sequence}; {missing} skipped, {len(lost)} lost",
        facts,
    )


def redrive(task: ViewTask, command: Command, unit: CommitUnit) -> CommandResult:
    """Handle a parked stream's events again, from the failed one on."""
    stream, progress = _held(task, command)
    number = progress.waiting
    released(task, stream)
    moved(task, stream, task.state.waiting[stream], [], unit)
    return CommandResult(
        True,
        f"{_of(task, stream)} is released, with {counted(number, 'waiting event')}"
        + _but_halted(task),
        {"released": number},
    )


def unpark(task: ViewTask, command: Command, unit: CommitUnit) -> CommandResult:
    """Release a parked stream without its failed event, which goes to the dead topic."""
    stream, held = _held(task, command)
    if (failed := next(task.state.waits(stream), None)) is None:
        raise CommandRefused(f"{_of(task, stream)}: what failed is yet to come again; ask then")
    if task.state.ordering.counts and failed.sequence != held.last + task.state.ordering.step:
        return _unpark_without_head(task, command, unit)
    if command.dry_run:
        told = (
            f"{_of(task, stream)} would go on behind "
            f"{failed.sequence}, which would go to {task.view.dead_topic}"
        )
        late = task.view.closed_by(failed) and task.state.ordering.reopen == "late"
        behind = 0 if late else held.waiting - 1
        facts = {"dead": 1, "last": failed.sequence, "released": behind}
        return CommandResult(True, told, facts)
    released(task, stream)
    progress = task.state.waiting[stream]
    bury(task.view, failed, f"{command.who} unparked its stream without it", unit)
    progress.last, progress.retry = failed.sequence, None
    progress.add_skipped(failed.sequence, failed.sequence)
    _take_out(progress, [failed])
    task.state.counts.skipped = saturated(task.state.counts.skipped + 1)
    task.state.counts.dead += 1
    run = task.state.ordering.run(task.state, task.state.timers)
    run.begin_or_end(failed, progress)
    result, handling = run.result, task.new_handling(unit)
    result.changed[stream] = progress.plain()
    result.released.append(failed)
    result.unfinished = task.state.unfinished_streams
    handling.end_state(failed)
    task.finish(result, handling, unit)
    _go_on(task, stream, progress)
    return CommandResult(
        True,
        f"{_of(task, stream)} goes on behind {failed.sequence}, which is in "
        f"{task.view.dead_topic}" + _but_halted(task),
        {"dead": 1, "last": failed.sequence, "released": progress.waiting},
    )


def _unpark_without_head(task: ViewTask, command: Command, unit: CommitUnit) -> CommandResult:
    """What failed is dead already, as the input lost it: nothing else is to go with it."""
    stream, held = _held(task, command)
    missing = held.last + task.state.ordering.step
    told = f"behind {held.last}; {missing}, which failed, is dead already, and is missing"
    if command.dry_run:
        facts = {"dead": 0, "last": held.last, "released": held.waiting}
        return CommandResult(True, f"{_of(task, stream)} would go on {told}", facts)
    released(task, stream)
    progress = task.state.waiting[stream]
    moved(task, stream, progress, [], unit)
    facts = {"dead": 0, "last": progress.last, "released": progress.waiting}
    return CommandResult(True, f"{_of(task, stream)} goes on {told}" + _but_halted(task), facts)


def release_in_order(task: ViewTask, command: Command, unit: CommitUnit) -> CommandResult:
    """Redrive or unpark a stream of a view with workers that its first stage does not have parked:
    the command takes its place among the stream's events.
    """
    stream, _ = _stream(task, command)
    where, view = _of(task, stream), task.view
    if command.dry_run:
        raise CommandRefused(f"{where}: {command.name} has no dry run in a view with workers")
    tell_workers(view, stream, command.name.encode(), unit)
    told = f"{where} is released behind what has arrived, if it is parked there"
    return CommandResult(True, told, {})


def drop(task: ViewTask, command: Command, unit: CommitUnit) -> CommandResult:
    """Forget a stream: its progress, its state, and, forced, the events that wait."""
    stream, progress = _stream(task, command)
    where = _of(task, stream)
    # Rows may be of a stream that was dropped in this very unit.
    late_ones = task.late_events.streams.get(stream, set())
    gone_too = (progress.waiting if isinstance(progress, Progress) else 0) + len(late_ones)
    if gone_too and not command.force:
        raise CommandRefused(
            f"{where} would lose {counted(gone_too, 'waiting event')} to "
            f"{task.view.dead_topic}; force it if that is meant"
        )
    if command.dry_run:
        lost_too = counted(gone_too, "event")
        told = f"{where} would be forgotten, it is at {last_of(progress)}; {lost_too} lost"
        return CommandResult(True, told, {"dead": gone_too, "last": last_of(progress)})
    lost = list(task.state.waits(stream))
    rows_of_late = task.late_events.rows(stream) if late_ones else ()
    late = [task.state.revive(stream, n, row) for n, row in rows_of_late if n in late_ones]
    for event in (*lost, *late):
        bury(task.view, event, f"{command.who} dropped its stream", unit)
    if task.view.work is not None:
        name = FORCED_DROP if command.force else command.name.encode()
        tell_workers(task.view, stream, name, unit)
    known = progress != task.state.ordering.first or task.state.known(stream)
    counts, parked = task.state.counts, task.state.parked.get(stream, 0)
    counts.parked -= parked
    counts.waiting -= len(lost) - parked
    counts.late -= len(late)
    counts.dead += len(lost) + len(late)
    task.state.forget(stream)
    rows: list[Row] = []
    if known:
        # A read store would take what comes without an epoch for what it had before; and what came
        # before is no history of the stream that begins now.
        epoch = progress.epoch + 1 if isinstance(progress, Progress) else 1
        anew = Progress(task.state.ordering.first, epoch=epoch, anew=task.state.position)
        task.state.epochs = True
        rows = task.state.keep({stream: anew}, {})
    rows += task.state.cells.forget(stream) if task.view.cells else ()
    task.state.note(unit, [*rows, *delete_rows(lost), *task.late_events.forget(stream)])
    lost += late
    return CommandResult(
        True,
        f"{where} is forgotten, it was at {last_of(progress)}; {counted(len(lost), 'event')} lost",
        {"dead": len(lost), "last": last_of(progress)},
    )


def redrive_dry_run(task: ViewTask, command: Command, tried: DryRun | None) -> CommandResult:
    """A dry run of `redrive`."""
    stream, _ = _held(task, command)
    found = tried or dry_run(task.state, stream)
    where = f"{_of(task, stream)}: {counted(found.released, 'event')} would be released"
    if found.untried:
        ordering = task.state.ordering
        told = (
            f"{where}; {found.untried:,} more were not tried: a dry run tries "
            f"{ordering.drain:,} events or {ordering.portion >> 20} MB"
        )
    elif found.fails is None:
        told = f"{where}, and {found.waits} would wait"
    else:
        told = (
            f"{where}; sequence {found.fails} would fail, with {found.waits} behind it: "
            f"{found.error}"
        )
    return CommandResult(True, told, asdict(found))


def _of(task: ViewTask, stream: str) -> str:
    return f"view {task.view.name}: stream {printable(stream)}"


def _stream(task: ViewTask, command: Command) -> tuple[str, int | Progress]:
    stream = command.stream
    assert stream
    if not task.state.known(stream) and len(known := ids_of(task.state, stream)) > 1:
        several = ", ".join(printable(each) for each in known[:NAMED])
        raise CommandRefused(
            f"view {task.view.name} has {len(known)} streams that {printable(repr(stream))} may "
            f"mean: {several}{', …' if len(known) > NAMED else ''}; name one of them"
        )
    # The workers may have it parked, though the first stage has forgotten it.
    releases = task.view.work is not None and command.name in ("redrive", "unpark", "drop")
    anyhow = command.force and (releases or not command.everywhere)
    if not task.state.known(stream) and not anyhow:
        raise CommandRefused(
            f"view {task.view.name} has no stream {printable(repr(stream))}; write its id "
            "as the inspector does",
            **{UNKNOWN_STREAM: True},
        )
    return stream, task.state.progress(stream)


def _held(task: ViewTask, command: Command) -> tuple[str, Progress]:
    stream, progress = _stream(task, command)
    if not isinstance(progress, Progress) or not progress.held:
        raise CommandRefused(f"{_of(task, stream)} is not parked, it is at {last_of(progress)}")
    _not_rebuilding(task, stream)
    return stream, progress


def _not_rebuilding(task: ViewTask, stream: str) -> None:
    if stream in task.late_events.streams:
        raise CommandRefused(
            f"{_of(task, stream)} is about to be rebuilt, as a late event came; "
            "give the command again when that is done"
        )


def released(task: ViewTask, stream: str) -> None:
    """Set a stream aside no longer; its retries count from the start."""
    task.state.release(stream, anew=True)
    task.state.timers.discard(stream)
    task.state.retries.discard(stream)
    parked = task.state.parked.pop(stream, 0)
    task.state.counts.parked -= parked
    task.state.counts.waiting += parked


def moved(
    task: ViewTask, stream: str, progress: Progress, lost: list[Event], unit: CommitUnit
) -> None:
    """Take a stream's new progress over; its drain goes on in the next step."""
    task.state.note(unit, task.state.keep({stream: progress.plain()}, {}) + delete_rows(lost))
    _go_on(task, stream, progress)


def _go_on(task: ViewTask, stream: str, progress: Progress) -> None:
    if not progress.waiting:
        task.state.timers.discard(stream)
        return
    task.state.watch(stream, progress)
    if task.resend_requests is not None:
        task.resend_requests.note({stream: progress})
    if task.state.can_go_on(stream, progress) and stream not in task.state.unfinished_streams:
        task.state.unfinished_streams.append(stream)


def _take_out(progress: Progress, lost: list[Event]) -> None:
    """Let events wait no longer."""
    for event in lost:
        if progress.ring is not None and progress.ring.get(event.sequence) is event:
            progress.ring.pop(event.sequence)
        else:
            progress.spilled -= 1


def _but_halted(task: ViewTask) -> str:
    return "; the view is halted, and goes on when it is resumed" if task.halted else ""
