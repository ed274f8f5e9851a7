"""What tasks make of the parts of a batch for a Delta Lake read store, without Spark."""

import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from stores.sinks import OutputRecord, Position
from stores.sinks.contract import ORDERS, TOPIC, delete, order, upsert, value
from stores.sinks.delta.folding import DeltaFold, DeltaPart, Merging, merged, staged_streams
from stores.sinks.delta.rows import DELETE, RESET, UPSERT
from stores.sinks.schema import Schema
from topology import Table

TABLES = [ORDERS, Table("floats", {"x": float}, {"n": int})]


def declared() -> Schema:
    """The tables, as if they were there."""
    schema = Schema([])
    for table in TABLES:
        schema.declare(table)
    schema.added.clear()
    return schema


def fold(records: Iterable[OutputRecord], **known: tuple[int, int]) -> tuple[DeltaPart, Any]:
    """The part, and its staged rows as one Arrow batch."""
    schema = declared()
    marks = {(TOPIC, "orders", stream): mark for stream, mark in known.items()}
    one = DeltaFold(schema, {(TOPIC, 9): Position(TOPIC, 9, 5)}, {}, marks, 4)
    columns = zip(*records, strict=True)
    types = pa.string(), pa.int32(), pa.int64(), pa.binary()
    arrays = [pa.array(each, kind) for each, kind in zip(columns, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, ["topic", "partition", "offset", "value"])
    staged = pa.Table.from_batches(pickle.loads(pickle.dumps(one))(iter([batch])))
    (part,) = [row["rows"] for row in staged.to_pylist() if row["name"] is None]
    return pickle.loads(part), staged


def rows(name: str, *parts: tuple[DeltaPart, Any]) -> dict[Any, dict[str, Any]]:
    """Key → the row that a MERGE is given for a table, of all parts and buckets."""
    schema = declared()
    table = schema.tables[name]
    plan = merged(table, [part.plans[name] for part, _ in parts if name in part.plans])
    staged = pa.concat_tables(each for _, each in parts)
    found: dict[Any, dict[str, Any]] = {}
    wanted = staged.filter(pa.compute.equal(staged["name"], name))
    for batch in Merging(table, plan)(iter(wanted.combine_chunks().to_batches())):
        for row in batch.to_pylist():
            key = tuple(row.pop(f"k{n}") for n in range(len(table.key)))
            assert key not in found
            found[key] = {
                "op": row["op"],
                **{
                    column: row[f"v{n}"]
                    for n, column in enumerate(plan.columns)
                    if row["op"] == RESET or row.get(f"s{n}", row["op"] == UPSERT)
                },
            }
    return found


def test_rows_of_all_parts_have_the_columns_of_the_whole_batch() -> None:
    states = [upsert("orders", {"id": n}, state="one") for n in range(30)]
    one = fold([(TOPIC, 0, n, value("a", n, change)) for n, change in enumerate(states)])
    change = upsert("orders", {"id": 77}, total=1.5, paid=True)
    found = rows("orders", one, fold([(TOPIC, 1, 0, value("b", 1, change))]))
    assert found.pop((77,)) == {"op": UPSERT, "total": 1.5, "paid": True}
    assert found == {(n,): {"op": UPSERT, "state": "one"} for n in range(30)}


def test_a_row_that_two_parts_write_is_one_change() -> None:
    def part(partition: int, *changes: Any) -> tuple[DeltaPart, Any]:
        return fold([(TOPIC, partition, 0, value(f"s{partition}", 1, *changes))])

    first = part(
        0,
        upsert("orders", {"id": 1}, state="a", total=1.0),
        upsert("orders", {"id": 2}, state="a"),
        delete("orders", {"id": 3}),
        upsert("orders", {"id": 4}, state="a"),
        delete("orders", {"id": 5}),
        upsert("orders", {"id": 5}, state="anew"),
    )
    second = part(
        1,
        upsert("orders", {"id": 1}, state="b"),
        delete("orders", {"id": 2}),
        upsert("orders", {"id": 3}, state="b"),
        upsert("orders", {"id": 5}, total=2.0),
    )
    for parts in ((first, second), (second, first)):  # They are put in order.
        assert rows("orders", *parts) == {
            (1,): {"op": UPSERT, "state": "b", "total": 1.0},
            (2,): {"op": DELETE},
            (3,): {"op": RESET, "state": "b", "total": None, "paid": None},
            (4,): {"op": UPSERT, "state": "a"},
            (5,): {"op": RESET, "state": "anew", "total": 2.0, "paid": None},
        }


def test_equal_keys_are_in_one_bucket() -> None:
    parts = [
        fold([(TOPIC, n, 0, value(f"s{n}", 1, upsert("floats", {"x": x}, n=n)))])
        for n, x in enumerate((0.0, -0.0))
    ]
    assert rows("floats", *parts) == {(0.0,): {"op": UPSERT, "n": 1}}


def test_streams_come_with_the_lowest_mark_unless_they_are_known() -> None:
    records = [
        order(0, 7, state="new"),
        (TOPIC, 0, 1, value("a", 3, upsert("orders", {"id": "no number"}))),
        order(2, 8),
        (TOPIC, 0, 3, value("k", 4)),
        (TOPIC, 0, 4, value("k", 5)),
        (TOPIC, 0, 5, value("only dead", 1, upsert("orders", {"id": "no number"}))),
    ]
    part, staged = fold(records, k=(0, 4))
    assert (part.applied.applied, part.applied.duplicates, part.applied.dead) == (3, 2, 1)
    (streams,) = staged_streams(
        iter(staged.filter(pa.compute.equal(staged["name"], "_progress")).to_batches())
    )
    found = {row["k2"]: tuple(row.values())[4:] for row in streams.to_pylist()}
    assert found == {
        "a": (8, 0, 0, 7),
        "k": (5, 0, None, None),
        "only dead": (None, None, 0, 1),
    }


def test_what_is_not_plain_is_refused_as_a_whole() -> None:
    assert fold([order(0, 1, new="column")])[0].refused == "it needs new tables or columns"
    again = fold([(TOPIC, 9, 4, value("a", 1)), (TOPIC, 9, 5, value("a", 2))])[0]
    assert again.refused == f"records of topic '{TOPIC}' partition 9 come again"
