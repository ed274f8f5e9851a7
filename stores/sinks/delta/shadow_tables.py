"""The shadow tables of a Delta Lake read store, and how they replace the live ones.

No commit covers several tables, so a switch is an entry of the live journal first, and then one
commit for each table; whoever finds it cut off carries it out to its end.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from stores.sinks.delta.catalog import folder_name
from stores.sinks.delta.dead_rows import DEAD, REMOVED, DeltaDeadRecords
from stores.sinks.delta.files import HadoopFiles
from stores.sinks.delta.journal import JournalEntry, StoreState, Switch
from stores.sinks.delta.journal_files import JournalFiles
from stores.sinks.delta.numbered_files import VersionConflict
from stores.sinks.delta.tables import DeltaTables
from stores.sinks.errors import StoreError
from stores.sinks.records import Position
from stores.sinks.shadows import OLD, check_caught_up, not_caught_up, shadow_name

_JOURNAL = "_journal"
_SAME = "t.topic = s.topic AND t.view = s.view AND t.stream = s.stream"


def names(files: HadoopFiles) -> list[str]:
    """The shadows that there are."""
    ends = (name.rpartition("__") for name in files.names())
    return sorted(
        {shadow for base, _, shadow in ends if base == _JOURNAL or (base and shadow == OLD)}
    )


def drop(tables: DeltaTables, files: HadoopFiles, shadow: str) -> None:
    """Delete a shadow's tables and notes; the journal goes last, and with it the shadow."""
    mine = [name for name in files.names() if name.rpartition("__")[1:] == ("__", shadow)]
    for name in sorted(mine, key=lambda name: name == shadow_name(_JOURNAL, shadow)):
        tables.drop(name)


def prepared(
    tables: DeltaTables,
    version: int,
    state: StoreState,
    switch: Switch,
    positions: Iterable[Position],
) -> JournalEntry:
    """The entry of a switch to a shadow at these positions. Raises StoreError if it may not be."""
    shadow = switch.shadow
    check_caught_up(shadow, switch.topics, state.positions.values(), positions)
    _check_streams(tables, shadow)
    steps = []
    for table in switch.tables:
        live = folder_name(table)
        if tables.look(live) is not None:
            kept = shadow_name(live, OLD)
            if tables.look(kept) is not None:
                raise StoreError(
                    f"table {table!r}: the store has {kept!r} already, which the live table would "
                    f"be kept as; drop the shadow tables {OLD!r} first"
                )
            broken = tables.broken_check(live, shadow_name(live, shadow))
            if broken is not None:
                raise StoreError(
                    f"table {table!r}: rows of the shadow tables {shadow!r} break its CHECK "
                    f"constraint {broken}; make them anew with rows that do not, or drop the "
                    "constraint, and switch again"
                )
            steps.append(kept)
        steps.append(live)
    own = ("_dead", "_dead_removed", "_progress")
    steps += [name for name in own if tables.exists(shadow_name(name, shadow))]
    ahead = {table: ends for table, ends in state.ahead.items() if table not in switch.tables}
    return JournalEntry(version, steps, state, replace(state, ahead=ahead), switch)


def _check_streams(tables: DeltaTables, shadow: str) -> None:
    """The shadow has to be as far with every stream, unless it is in a later epoch already."""
    there = shadow_name("_progress", shadow)
    if not (tables.exists("_progress") and tables.exists(there)):
        return
    behind = tables.query(
        "SELECT t.view, t.stream, s.sequence, t.sequence "
        f"FROM {tables.at('_progress')} AS t JOIN {tables.at(there)} AS s ON {_SAME} "
        "WHERE t.epoch >= s.epoch AND t.sequence > s.sequence LIMIT 1"
    )
    for view, stream, has, live in behind:
        raise not_caught_up(shadow, view, stream, has, live)


def carry_out(
    tables: DeltaTables, files: HadoopFiles, notes: JournalFiles, entry: JournalEntry
) -> None:
    """Do what is not done of a switch, and delete the shadow."""
    assert entry.switch is not None
    shadow = entry.switch.shadow
    for step in entry.steps:
        if tables.version(step) >= entry.version:
            continue
        live = step.removesuffix(shadow_name("", OLD))
        if live != step:
            tables.copy(live, step, entry.version)
        elif step.startswith("_") and tables.exists(step):
            if step == DEAD.name:
                for name in (step, shadow_name(step, shadow)):
                    DeltaDeadRecords(tables, name, REMOVED.name).prepare()
            _take_over(tables, step, shadow, entry.version)
        else:
            tables.copy(shadow_name(step, shadow), step, entry.version)
    drop(tables, files, shadow)
    # Another shadow of that name may be begun once this entry is not the last one.
    with suppress(VersionConflict):  # by another one that carried it out, too
        notes.write(JournalEntry(entry.version + 1, [], entry.after, entry.after))


def _take_over(tables: DeltaTables, name: str, shadow: str, version: int) -> None:
    """Add the shadow's notes to the live ones that there are.

    See `Sink.switch` of what becomes of epochs.
    """
    same, update, columns = {
        "_progress": (
            _SAME,
            "WHEN MATCHED THEN UPDATE SET t.sequence = s.sequence, "
            "t.epoch = greatest(t.epoch, s.epoch) ",
            ("topic", "view", "stream", "sequence", "epoch"),
        ),
        "_dead": (
            "t.topic = s.topic AND t.partition = s.partition AND t.offset = s.offset",
            "",
            ("topic", "partition", "offset", "reason", "value", "at"),
        ),
        # Of a partition of both, what the live tables passed over is what may come again there.
        "_dead_removed": (
            "t.topic = s.topic AND t.partition = s.partition",
            "",
            ("topic", "partition", "spans"),
        ),
    }[name]
    tables.run(
        f"MERGE INTO {tables.at(name)} AS t USING {tables.at(shadow_name(name, shadow))} AS s "
        f"ON {same} {update}WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) "
        f"VALUES ({', '.join(f's.{column}' for column in columns)})",
        version,
    )
