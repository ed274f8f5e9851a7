"""What Spark's tasks make of a batch: each folds its part of it, then each has its share of rows.

A task folds the records of its partitions. The row changes of a table go on by key, a bucket of
keys at a time, so that another task has all changes of a row, and makes them one.
"""

import pickle
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn
from zlib import crc32

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stores.sinks.decoding import Mark, Stream
from stores.sinks.delta.rows import DELETE, RESET, UPSERT, MergePlan, arrow_type, source
from stores.sinks.delta.store import PROGRESS
from stores.sinks.distributed import NotDistributed, records_of
from stores.sinks.errors import StoreError
from stores.sinks.records import Applied, DeadRecord, OutputRecord, Position
from stores.sinks.reduction import MANY, Reduction
from stores.sinks.row_changes import TableChanges, gc_paused
from stores.sinks.schema import Schema, TableState

STAGED = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("name", pa.string()),
        ("bucket", pa.int32()),
        ("rows", pa.binary()),
    ]
)
"""What a task makes: rows of the table `name` as an Arrow stream, or where there is no name, the
part. Topic and partition are the part's first ones."""
STAGED_STREAMS = pa.schema(
    [
        ("op", pa.int8()),
        *((f"k{number}", pa.string()) for number in range(len(PROGRESS.key))),
        *((name, pa.int64()) for name in ("v0", "v1", "first_epoch", "first_sequence")),
    ]
)
"""The rows of `_progress`: as other rows, and the lowest mark that came of a stream. A stream of
which nothing was applied has no values."""
_COLUMNS = b"columns"


@dataclass(slots=True)
class DeltaPart:
    """What a part of a batch came to, besides rows; see `FoldedPart`.

    plans: of the tables that have rows. moved: whether streams go on.
    """

    refused: str | None = None
    positions: list[Position] = field(default_factory=list)
    applied: Applied = field(default_factory=Applied)
    dead: list[DeadRecord] = field(default_factory=list)
    plans: dict[str, MergePlan] = field(default_factory=dict)
    moved: bool = False


@dataclass(frozen=True)
class DeltaFold:
    """Folds a part of a batch on whichever machine it is.

    The marks of streams are in a table that tasks do not read. A stream is taken for new unless it
    is `known`; whether its records are behind what the table says is looked at afterwards.

    schema: the tables. positions, ahead: see `StoreState`. known: streams of which records come
    again. buckets: of keys.
    """

    schema: Schema
    positions: Mapping[tuple[str, int], Position]
    ahead: Mapping[str, Mapping[tuple[str, int], int]]
    known: Mapping[Stream, Mark]
    buckets: int
    at_once: ClassVar[int] = MANY

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        """See `StoredProgress.marks`."""
        return {stream: self.known[stream] for stream in streams if stream in self.known}

    def is_dead(self, topic: str, partition: int, offset: int) -> NoReturn:
        """See `StoredProgress.is_dead`."""
        raise NotDistributed(f"records of topic {topic!r} partition {partition} come again")

    def forgetting(self, topic: str) -> str:
        """See `StoredProgress.forgetting`."""
        raise NotImplementedError  # `is_dead` comes before

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The part as `STAGED` has it."""
        records = [record for batch in batches for record in records_of(batch)]
        if records:
            at = min(record[:2] for record in records)
            with gc_paused():
                found = [(*at, *row) for row in self._staged(records)]
            columns = zip(STAGED, zip(*found, strict=True), strict=True)
            arrays = [pa.array(values, each.type) for each, values in columns]
            # One row at a time: several are soon more than Arrow's 2 GB.
            yield from pa.table(arrays, schema=STAGED).to_batches(max_chunksize=1)

    def _staged(self, records: list[OutputRecord]) -> Iterator[tuple[str | None, int, bytes]]:
        reduction = Reduction(self.schema, self, self.positions, ahead=self.ahead)
        try:
            reduction.fold(records)
            if reduction.schema.added:
                raise NotDistributed("it needs new tables or columns")
        except (NotDistributed, StoreError) as refused:
            yield None, 0, pickle.dumps(DeltaPart(str(refused)))
            return
        applied = reduction.applied
        part = DeltaPart(None, list(reduction.positions.values()), applied, reduction.dead)
        part.moved = bool(reduction.moved)
        for name, changes in reduction.rows.items():
            if changes.values:
                rows, part.plans[name] = source(reduction.schema.tables[name], changes)
                gone = changes.deletes()
                applied.deletes += gone
                applied.upserts += len(changes.values) - gone
                columns = {_COLUMNS: orjson.dumps(part.plans[name].columns)}
                rows = rows.replace_schema_metadata(columns)
                for bucket, some in _by_key(rows, self.buckets):
                    yield name, bucket, _encoded(some)
        if reduction.firsts or reduction.moved:
            yield PROGRESS.name, 0, _encoded(_streams(reduction))
        yield None, 0, pickle.dumps(part)


def _streams(reduction: Reduction) -> pa.Table:
    """Rows of `_progress`, as `STAGED_STREAMS` has them."""
    none = (None, None)
    rows = []
    for stream in {**reduction.firsts, **dict.fromkeys(reduction.moved)}:
        moved = stream in reduction.moved
        epoch, sequence = reduction.marks[stream] if moved else none
        rows.append((UPSERT, *stream, sequence, epoch, *reduction.firsts.get(stream, none)))
    arrays = [
        pa.array(values, each.type)
        for each, values in zip(STAGED_STREAMS, zip(*rows, strict=True), strict=True)
    ]
    return pa.table(arrays, schema=STAGED_STREAMS)


def staged_streams(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of `_progress` that were staged, as `STAGED_STREAMS` has them."""
    for batch in batches:
        for rows in batch.column("rows").to_pylist():
            yield from pa.ipc.open_stream(rows).read_all().to_batches()


def _keys(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The rows' keys: equal ones look the same, also 0.0 and -0.0."""
    columns = [rows[name] for name in rows.column_names if name[0] == "k"]
    plain = (pc.add(c, 0.0) if pa.types.is_floating(c.type) else c for c in columns)
    return list(zip(*(column.to_pylist() for column in plain), strict=True))


def _by_key(rows: pa.Table, buckets: int) -> Iterable[tuple[int, pa.Table]]:
    """Bucket → the rows whose keys belong there, wherever they are."""
    if buckets == 1:
        return [(0, rows)]
    found = pa.array([crc32(repr(key).encode()) % buckets for key in _keys(rows)], pa.int32())
    return [(each, rows.filter(pc.equal(found, each))) for each in pc.unique(found).to_pylist()]


def _encoded(rows: pa.Table) -> bytes:
    kept = pa.BufferOutputStream()
    with pa.ipc.new_stream(kept, rows.schema) as stream:
        stream.write_table(rows)
    return bytes(kept.getvalue().to_pybytes())


def merged(table: TableState, plans: Sequence[MergePlan]) -> MergePlan:
    """The plan for the rows of several parts, which may have changes of the same rows."""
    first, *others = plans
    if not others:
        return first
    ops = frozenset[int]().union(*(plan.ops for plan in plans))
    columns = [c for c in table.columns if any(c in plan.columns for plan in plans)]
    partly = any(plan.partly or len(plan.columns) < len(columns) for plan in plans)
    if DELETE in ops and ops != {DELETE}:  # A part may write a row that another one deletes.
        ops, columns, partly = ops | {RESET}, list(table.columns), True
    common = [c for c in first.bounds if all(c in plan.bounds for plan in others)]
    bounds = {}
    for column in common:
        lows, highs = zip(*(plan.bounds[column] for plan in plans), strict=True)
        bounds[column] = min(lows), max(highs)
    return MergePlan(columns, partly, ops, bounds)


@dataclass(frozen=True)
class Merging:
    """Makes the rows of a table that came of all parts one row for each key.

    It does so on whichever machine it is, for some buckets.
    """

    table: TableState
    plan: MergePlan

    @property
    def schema(self) -> Any:
        """Of the rows."""
        sets = list(enumerate(map(self.table.columns.__getitem__, self.plan.columns)))
        return pa.schema(
            [
                ("op", pa.int8()),
                *((f"k{n}", arrow_type(kind)) for n, kind in enumerate(self.table.key.values())),
                *((f"v{n}", arrow_type(kind)) for n, kind in sets),
                *((f"s{n}", pa.bool_()) for n, _ in sets if self.plan.partly),
            ]
        )

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of staged ones."""
        buckets: dict[int, list[tuple[str, int, bytes]]] = defaultdict(list)
        for batch in batches:
            for topic, partition, _, bucket, rows in zip(*batch.to_pydict().values(), strict=True):
                buckets[bucket].append((topic, partition, rows))
        for parts in buckets.values():
            found = [
                self._aligned(pa.ipc.open_stream(rows).read_all()) for *_, rows in sorted(parts)
            ]
            rows = pa.concat_tables(found)
            yield from (self._once(rows) if len(found) > 1 else rows).to_batches()

    def _aligned(self, rows: pa.Table) -> pa.Table:
        """A part's rows with the columns of the whole batch."""
        own = orjson.loads(rows.schema.metadata[_COLUMNS])
        names, arrays = set(rows.column_names), []
        for each in self.schema:
            kind, column = each.name[0], None
            if kind in "vs":
                column = self.plan.columns[int(each.name[1:])]
            name = each.name if column is None else f"{kind}{_index(own, column)}"
            if name in names:
                arrays.append(rows[name].cast(each.type))
            elif kind == "s":  # All rows of the part set the column, or none do.
                arrays.append(pa.repeat(column in own, len(rows)))
            else:
                arrays.append(pa.nulls(len(rows), each.type))
        return pa.table(arrays, schema=self.schema)

    def _once(self, rows: pa.Table) -> pa.Table:
        """Rows of several parts, in order, with the changes of one row made one."""
        keys = _keys(rows)
        again = {key for key, times in Counter(keys).items() if times > 1}
        if not again:
            return rows
        several = pa.array([key in again for key in keys])
        changes = TableChanges()
        for key, row in zip(
            (key for key in keys if key in again), rows.filter(several).to_pylist(), strict=True
        ):
            if row["op"] != UPSERT:
                changes.set(key, None)
            if row["op"] != DELETE:
                changes.set(key, self._values(row))
        once = [self._row(key, values, changes.reset) for key, values in changes.values.items()]
        made = pa.Table.from_pylist(once, self.schema)
        return pa.concat_tables([rows.filter(pc.invert(several)), made])

    def _values(self, row: Mapping[str, Any]) -> dict[str, Any]:
        numbers = range(len(self.plan.columns))
        return {f"v{n}": row[f"v{n}"] for n in numbers if not self.plan.partly or row[f"s{n}"]}

    def _row(
        self, key: tuple[Any, ...], values: dict[str, Any] | None, reset: Collection[Any]
    ) -> dict[str, Any]:
        op = DELETE if values is None else RESET if key in reset else UPSERT
        sets = values or {}
        flags = {f"s{n}": f"v{n}" in sets for n in range(len(self.plan.columns))}
        return {"op": op, **{f"k{n}": part for n, part in enumerate(key)}, **sets, **flags}


def _index(columns: Sequence[str], column: str) -> int:
    return columns.index(column) if column in columns else -1
