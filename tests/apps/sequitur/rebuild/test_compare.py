"""Comparing a shadow with the live tables."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from sequitur.rebuild.compare import Compared, compare, count_of
from stores.sinks import Sink, StoreError, open_sink
from topology import Table

TABLE = Table("t", key={"a": int, "b": str}, columns={"x": float})


def fill(sink: Sink, *rows: tuple[int, str, float | None]) -> None:
    changes = [
        {"op": "upsert", "table": "t", "key": {"a": a, "b": b}, "values": {"x": x}}
        for a, b, x in rows
    ]
    record = {"view": "v", "stream": "s", "sequence": 1, "changes": changes}
    assert sink.apply([("v", 0, 0, orjson.dumps(record))]).dead == 0


def compared(tmp_path: Path, live: Any, shadow: Any) -> Compared:
    url = f"sqlite:///{tmp_path / 'read.db'}"
    with open_sink(url, [TABLE]) as one, open_sink(url, [TABLE], shadow="new") as other:
        fill(one, *live)
        fill(other, *shadow)
        return compare(one, other, "t", list(TABLE.key))


def test_the_same(tmp_path: Path) -> None:
    found = compared(tmp_path, [(2, "é", 1.5), (1, "z", None)], [(1, "z", None), (2, "é", 1.5)])
    assert found.same
    assert str(found) == "table t: 2 rows live, 2 rebuilt, all the same"


def test_rows_that_differ_are_found_in_either(tmp_path: Path) -> None:
    live = [(1, "a", 1.0), (1, "b", 1.0), (2, "a", 1.0), (3, "a", None)]
    shadow = [(0, "z", 1.0), (1, "b", 1.0), (2, "a", 2.0), (3, "a", None), (9, "a", 1.0)]
    found = compared(tmp_path, live, shadow)
    assert (found.live, found.shadow) == (4, 5)
    assert (found.only_live, found.only_shadow, found.differing) == (1, 2, 1)
    assert not found.same
    assert "{'a': 1, 'b': 'a'} is only live" in str(found)
    assert "{'a': 2, 'b': 'a'}: x 1.0 is 2.0 rebuilt" in str(found)


def test_empty_tables(tmp_path: Path) -> None:
    assert compared(tmp_path / "one", [], []).same
    assert compared(tmp_path / "other", [], [(1, "a", 1.0)]).only_shadow == 1


def test_another_key_is_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'read.db'}"
    before = Table("t", key={"a": int}, columns={"x": float})
    with open_sink(url, [before]) as one, open_sink(url, [TABLE], shadow="new") as other:
        change = {"op": "upsert", "table": "t", "key": {"a": 1}, "values": {"x": 1.0}}
        record = {"view": "v", "stream": "s", "sequence": 1, "changes": [change]}
        one.apply([("v", 0, 0, orjson.dumps(record))])
        fill(other, (1, "a", 1.0))
        found = compare(one, other, "t", list(TABLE.key))
    assert (found.only_live, found.only_shadow) == (1, 1)
    assert "another key" in str(found)


def test_a_table_that_is_not_there_has_no_rows_and_another_error_is_told(tmp_path: Path) -> None:
    path = tmp_path / "read.db"
    with open_sink(f"sqlite:///{path}", [TABLE]) as sink:
        fill(sink, (1, "a", 1.0))
        assert (count_of(sink, "t"), count_of(sink, "another")) == (1, 0)
        assert list(sink.rows("t"))
        with closing(sqlite3.connect(path)) as other:
            other.execute("DROP TABLE _shadows")
        with pytest.raises(StoreError, match="no such table: _shadows"):
            count_of(sink, "t")
