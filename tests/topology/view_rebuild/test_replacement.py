"""A stream's rows in the middle of live tables: the old ones go, the new ones come."""

from typing import Any

from tests.topology.view_rebuild.rows import ReadStore
from topology.view_rebuild.replacement import Replacement, are_changes


def upsert(row: int, **values: Any) -> dict[str, Any]:
    return {"op": "upsert", "table": "t", "key": {"row": row}, "values": values}


def test_it_comes_to_what_is_rebuilt_and_what_was_said_since() -> None:
    store = ReadStore()
    found = Replacement("v", "s")
    found.wrote([upsert(1, old=1, x=1), upsert(2, x=1)])
    found.rebuilt({"sequence": 7, "changes": [upsert(1, x=2), upsert(3, x=2)]})
    found.rebuilt({"sequence": 9, "changes": [upsert(3, y=3)]})
    store.tables["t"] = {b'{"row":1}': {"old": 1, "x": 1}, b'{"row":2}': {"x": 1}}
    followed = [
        {"sequence": 9, "changes": [upsert(3, x="an old one")]},
        {"sequence": 10, "changes": [upsert(4, x=4)]},
        {"sequence": 10, "changes": [upsert(4, x="a second time")]},
        {"sequence": 1, "epoch": 1, "changes": [upsert(3, z=5)]},
    ]
    store.apply([found.record(followed)])
    assert store.plain()["t"] == {
        b'{"row":1}': {"x": 2},
        b'{"row":3}': {"x": 2, "y": 3, "z": 5},
        b'{"row":4}': {"x": 4},
    }
    assert store.last == {("v", "s"): 1}  # of epoch 1


def test_changes_of_a_record_that_no_store_applied_are_told() -> None:
    assert are_changes([upsert(1, x=1), {"op": "delete", "table": "t", "key": {"row": 1}}])
    bad: list[dict[str, Any]] = [{"table": 1}, {"key": 1}, {"key": {}}, {"values": 1}, {"op": "x"}]
    for each in bad:
        assert not are_changes([upsert(1), upsert(1) | each])
    others: list[Any] = [1, {}, None]
    assert not any(are_changes([other]) for other in others)
