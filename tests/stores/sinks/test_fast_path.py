"""What is folded the quick way is the same as what is folded record by record."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any
from unittest.mock import patch

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.sinks import OutputRecord
from stores.sinks import fast_path as fast_path
from stores.sinks.columns import JsonArray, JsonObject, Kind, Number
from stores.sinks.decoding import Mark, Stream
from stores.sinks.limits import NO_LIMITS, StoreLimits
from stores.sinks.reduction import FEW, Reduction
from stores.sinks.row_changes import TableChanges
from stores.sinks.schema import Schema, TableState
from topology.model.column_types import Digits

Folded = dict[str, Any]
TOPIC = "shop.orders"
KINDS: dict[str, Kind] = {
    **{"s": str, "i": int, "f": float, "b": bool, "n": Number, "o": object},
    **{"d": Digits(4, 1), "at": datetime, "day": date, "raw": bytes},
    **{"json": JsonObject, "list": JsonArray},
}


class _Stored:
    at_once = FEW

    def marks(self, streams: Iterable[Stream]) -> Mapping[Stream, Mark]:
        return {stream: (0, 2) for stream in streams if stream[2] == "known"}

    def is_dead(self, topic: str, partition: int, offset: int) -> bool:
        return False

    def forgetting(self, topic: str) -> str:
        return ""


def _fold(records: list[OutputRecord], limits: StoreLimits) -> Folded:
    tables = [
        TableState("t", {"k": int}, dict(KINDS)),
        TableState("u", {"a": str, "b": int}, {}),
        TableState("w", {"at": datetime, "raw": bytes, "d": Digits(4, 1)}, {}),
        TableState("keyless", {}, {"n": Number}),
    ]
    reduction = Reduction(Schema(tables, (), limits), _Stored(), {})
    reduction.fold(records)
    return {
        "rows": {name: (rows.values, rows.reset) for name, rows in reduction.rows.items()},
        "types": [
            [type(value) for value in values.values()]
            for rows in reduction.rows.values()
            for values in rows.values.values()
            if values is not None
        ],
        "tables": {name: (t.key, t.columns) for name, t in reduction.schema.tables.items()},
        "added": [(table.name, column) for table, column in reduction.schema.added],
        "marks": {s: mark for s, mark in reduction.marks.items() if s in reduction.moved},
        "positions": reduction.positions,
        "dead": reduction.dead,
        "applied": reduction.applied,
    }


def _both(records: list[OutputRecord], limits: StoreLimits = NO_LIMITS) -> tuple[Folded, Folded]:
    quick = _fold(records, limits)
    with patch.object(fast_path, "decoded", return_value=None):
        return quick, _fold(records, limits)


def _record(stream: str, sequence: Any, *changes: Any, **more: Any) -> bytes:
    body = {"view": "v", "stream": stream, "sequence": sequence, "changes": changes, **more}
    return orjson.dumps(body)


_VALUES: dict[str, list[Any]] = {
    "s": ["", "x", "nul\0", None, 1, [1], {"a": None}],
    "i": [0, -(2**63), 2**63 - 1, 2**63, True, 5.0, 5.5, None, "x"],
    "f": [0.5, 1, True, 2**63, None, "x"],
    "b": [True, False, 0, 1, 2, None],
    "n": [1, 1.5, 2**53, 2**53 + 1, 2**64 - 1, None, "1", True],
    "o": [1, "x", [1], None],
    "d": ["1", "1.5", "-999.9", "1.55", "1000", 7, 1.5, None],
    "at": ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001+02:00", "2026-01-01", 5, None],
    "day": ["2026-01-01", "2026-02-30", None],
    "raw": ["AA==", "A", None],
    "json": [{}, {"a": [1]}, {"a": "\0"}, [], "{}", None],
    "list": [[], [None], {}, None],
    "k": [1, 2, True, "1"],
    "new": [1, None, "x"],
}
_sets = st.one_of(
    st.fixed_dictionaries({"s": st.just("x"), "n": st.sampled_from([1, 1.5])}),
    st.fixed_dictionaries(
        {}, optional={name: st.sampled_from(values) for name, values in _VALUES.items()}
    ),
)
_changes = st.one_of(
    st.builds(
        lambda key, values: {"op": "upsert", "table": "t", "key": {"k": key}, "values": values},
        st.sampled_from([1, 2, 3]),
        _sets,
    ),
    st.builds(
        lambda op, a, b: {"op": op, "table": "u", "key": {"a": a, "b": b}, "values": {}},
        st.sampled_from(["upsert", "delete"]),
        st.sampled_from(["x", "y"]),
        st.sampled_from([1, 2]),
    ),
    st.builds(
        lambda *key: {
            "op": "upsert",
            "table": "w",
            "key": dict(zip(("at", "raw", "d"), key, strict=True)),
            "values": {},
        },
        st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T02:00:00+02:00", "2026-01-01", None]),
        st.sampled_from(["AA==", "\\x00", "AAAAAAAAAAAAAAAA", "A"]),
        st.sampled_from(["1", "1.0", 1, 1.0]),
    ),
    st.builds(lambda key: {"op": "delete", "table": "t", "key": {"k": key}}, st.integers(1, 3)),
    st.sampled_from(
        [
            {"op": "upsert", "table": "new", "key": {"k": 1}, "values": {"c": 1}},
            {"op": "upsert", "table": "t", "key": {"k": 1}, "values": None},
            {"op": "upsert", "table": "t", "key": {"k": 1}},
            {"op": "upsert", "table": "t", "key": {"k": None}, "values": {}},
            {"op": "upsert", "table": "t", "key": {"k": 1, "l": 1}, "values": {}},
            {"op": "upsert", "table": "t", "key": {"k": 2**63}, "values": {}},
            {"op": "upsert", "table": [1], "key": {"k": 1}, "values": {}},
            {"op": "upsert", "table": "keyless", "key": {}, "values": {"n": 1}},
            {"op": "delete", "table": "keyless", "key": {}},
            {"op": ["upsert"], "table": "t", "key": {"k": 1}, "values": {}},
            {"op": "replace", "table": "t", "key": {"k": 1}, "values": {}},
            "no object",
        ]
    ),
)
_bodies = st.one_of(
    st.builds(
        _record,
        st.sampled_from(["a", "b", "known"]),
        st.integers(0, 6),
        _changes,
    ),
    st.builds(
        lambda sequence, changes, epoch: _record("a", sequence, *changes, epoch=epoch),
        st.sampled_from([1, 9, 2**63 - 1, 2**63, "1", None]),
        st.lists(_changes, max_size=3),
        st.sampled_from([0, 1, -1, "1"]),
    ),
    st.sampled_from([None, b"", b"[]", b"1", b"{}", _record("a", 3), b'{"view":1}']),
)


@given(
    st.lists(_bodies, max_size=8),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 8, 20]),
)
def test_any_records_come_to_the_same(
    bodies: list[bytes | None], nul: bool, exact: bool, key_bytes: int | None
) -> None:
    records = [(TOPIC, 0, at, body) for at, body in enumerate(bodies)]
    quick, careful = _both(records, StoreLimits(nul=nul, exact=exact, key_bytes=key_bytes))
    assert quick == careful


@pytest.mark.parametrize("offsets", [(0, 1, 1), (0, 0, 0)])
def test_an_offset_that_comes_twice_is_replayed(offsets: tuple[int, ...]) -> None:
    records = [(TOPIC, 0, offset, _record("a", at)) for at, offset in enumerate(offsets, start=1)]
    quick, careful = _both(records)  # type: ignore[arg-type]
    assert quick == careful
    assert quick["applied"].replayed == 3 - len(set(offsets))


@pytest.mark.parametrize("op", ["upsert", "delete"])
def test_a_table_without_a_key_takes_no_row(op: str) -> None:
    change = {"op": op, "table": "keyless", "key": {}, "values": {"n": 1}}
    quick, careful = _both([(TOPIC, 0, 0, _record("a", 1, change))])
    assert quick == careful
    assert len(quick["dead"]) == 1


def test_records_of_known_tables_are_plain() -> None:
    change = {"op": "upsert", "table": "t", "key": {"k": 1}, "values": {"i": 1, "f": 2, "s": [3]}}
    gone = {"op": "delete", "table": "t", "key": {"k": 1}}
    found = fast_path.decoded(TOPIC, [_record("a", 1, change), _record("a", 2, gone)])
    assert found is not None
    assert found.streams == [(TOPIC, "v", "a")] * 2
    assert found.marks == [(0, 1), (0, 2)]
    schema = Schema([TableState("t", {"k": int}, dict(KINDS))])
    fitted = fast_path.fitted(schema, found.changes)
    assert fitted == [("t", [(1,), (1,)], [{"i": 1, "f": 2.0, "s": "[3]"}, None])]


def _rows(put: Callable[[TableChanges, list[Any], list[Any]], None]) -> TableChanges:
    rows = TableChanges()
    put(rows, [(1,), (2,)], [{"a": 1}, {"a": 2}])
    put(rows, [(3,), (1,), (1,)], [None, None, {"b": 1}])
    put(rows, [(1,), (2,), (3,), (3,)], [{"c": 1}, {"b": 2}, {"a": 3}, None])
    return rows


def test_changes_of_rows_are_one_change_in_portions_and_one_by_one() -> None:
    def one_by_one(rows: TableChanges, keys: list[Any], values: list[Any]) -> None:
        for key, each in zip(keys, values, strict=True):
            rows.set(key, each)

    expected = {(1,): {"b": 1, "c": 1}, (2,): {"a": 2, "b": 2}, (3,): None}
    for rows in (_rows(TableChanges.set_all), _rows(one_by_one)):
        assert rows == TableChanges(expected, {(1,)})
        assert rows.deletes() == 1
