"""Compare a view's state in one partition with what it should be: changelog, table and memory."""

from collections import defaultdict
from dataclasses import dataclass

from topology.declaration.orders import StreamOrder
from topology.declaration.view import View
from topology.engine.state.cells import decode_cell
from topology.engine.state.rows import (
    COUNTS,
    buffer_key,
    decode_note,
    decode_progress,
    split_buffer_key,
    split_cell_key,
)
from topology.model.counts import Counts, decode_counts
from topology.sequencer.progress import Progress, last_of
from topology.testing.simulation.fold import Expected
from topology.testing.simulation.schedule import Schedule


@dataclass(slots=True)
class StreamState:
    """Where a stream should be in a view. waiting: the sequences that wait."""

    last: int
    waiting: set[int]
    expected: Expected


def state_errors(
    run: Schedule,
    view: View,
    partition: int,
    counts: Counts,
    streams: dict[str, StreamState],
) -> list[str]:
    """What is wrong with a view's state in a partition, in words.

    counts: what they should be, but for `received` where events come again, and `duplicate`.
    """
    world, place = run.world, (view.of.by_stream, partition)
    rows: dict[bytes, bytes] = {}
    for key, value, _, _ in world.log.partition(world.changelog(view.name, partition)).committed():
        if value is None:
            rows.pop(key or b"", None)
        else:
            rows[key or b""] = value
    owner = run.owner[place]
    assert owner is not None
    runner = owner.runners[place]
    assert runner is not None
    assert runner.task is not None
    task = runner.task.views[view.name]

    wrong: list[str] = []
    held_rows = owner.table(view.name, partition).rows
    if held_rows != rows and not _only_stale(held_rows, rows, streams):
        wrong.append("the table is not what its changelog holds")
    stored = decode_counts(rows.pop(COUNTS, None))
    once = world.guarantee == "exactly_once"
    if not once and view.late.rebuilds:
        # A rebuild that a crash cut off has written records that are not counted.
        counts.written = stored.written
    wrong += _count_errors(counts, stored, once, view.of.sequence)
    if task.state.counts != stored:
        wrong.append(f"the counts in memory are {task.state.counts}, in the table {stored}")

    waits: dict[str, set[int]] = defaultdict(set)
    progress: dict[str, tuple[int, bytes | None]] = {}
    for key, row in rows.items():
        if key[:1] == b"b":
            stream, sequence = split_buffer_key(key)
            waits[stream].add(sequence)
        elif key[:1] == b"p":
            found, state = decode_progress(row)
            progress[key[1:].decode()] = last_of(found), state
    cells: dict[str, dict[str, bytes | None]] = {}
    for key, row in rows.items():
        if key[:1] == b"s":
            stream, name = split_cell_key(key)
            if (value := decode_cell(row, progress.get(stream, (0, None))[0])) is not None:
                cells.setdefault(stream, {})[name] = value
    for stream, wanted in streams.items():
        at, state = progress.pop(stream, (None, None))
        held = task.state.progress(stream)
        if at != wanted.last or last_of(held) != wanted.last:
            wrong.append(
                f"{stream} is at {at} in the table and {last_of(held)} in memory, "
                f"not at {wanted.last}"
            )
        waiting = waits.pop(stream, set())
        if not once and at is not None:
            # A crash may leave rows of what was processed; a start deletes them.
            waiting = {sequence for sequence in waiting if sequence > at}
        in_memory = held.waiting if isinstance(held, Progress) else 0
        if waiting != wanted.waiting or in_memory != len(waiting):
            wrong.append(
                f"of {stream} {sorted(waiting)} wait in the table and {in_memory} in memory, "
                f"not {sorted(wanted.waiting)}"
            )
        found_cells = {at: task.state.cells.get(stream, at) for at in task.state.cells.keys(stream)}
        if found_cells != wanted.expected.cells or cells.pop(stream, {}) != found_cells:
            wrong.append(f"{stream} has the cells {found_cells}, not {wanted.expected.cells}")
        if state != wanted.expected.state:
            wrong.append(f"{stream} has the state {state!r}, not {wanted.expected.state!r}")
    wrong += [f"stream {stream} never came" for stream in {**waits, **progress, **cells}]
    return [f"{view.name}/{partition}: {each}" for each in wrong]


def _only_stale(
    held: dict[bytes, bytes], logged: dict[bytes, bytes], streams: dict[str, StreamState]
) -> bool:
    """Whether a table has no more than its changelog and rows of events that were processed, notes
    of events that have rows, or cells that say that they are none.

    A table that was away for long misses deletions that compaction removed from the changelog.
    """
    if any(held.get(key) != row for key, row in logged.items()):
        return False
    for key in held.keys() - logged.keys():
        if key[:1] == b"r" or (key[:1] == b"s" and b",[],[" in held[key]):
            continue
        if key[:1] == b"m":
            events = [(note.stream, note.sequence) for note in decode_note(held[key])]
        elif key[:1] == b"b":
            events = [split_buffer_key(key)]
        else:
            return False
        for stream, sequence in events:
            if stream in streams and sequence <= streams[stream].last:
                continue
            if key[:1] == b"b" or buffer_key(stream, sequence) not in logged:
                return False
    return True


def _count_errors(wanted: Counts, stored: Counts, once: bool, order: StreamOrder) -> list[str]:
    received = wanted.received
    wrong: list[str] = []
    if stored.received != received if once else stored.received < received:
        wrong.append(f"{received} events came, the counts say {stored.received}")
    wanted.received, wanted.conflicts = stored.received, stored.conflicts
    wanted.rebuilt = stored.rebuilt
    if not (order.counts or order.settles):
        # It does not say how many were skipped.
        wanted.skipped = stored.skipped
    if not once:
        wanted.dead = stored.dead
    wanted.duplicate = wanted.received - wanted.accounted
    if stored != wanted:
        wrong.append(f"the counts are {stored}, not {wanted}")
    return wrong
