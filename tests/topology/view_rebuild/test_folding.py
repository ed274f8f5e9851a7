"""Many changes of a row are one."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from itertools import product
from typing import Any
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.view_rebuild.rows import ReadStore
from topology import Delete, Upsert
from topology.model.change_json import encoded
from topology.view_rebuild.folding import Folding

KEYS = st.sampled_from([{"a": 1}, {"a": True}, {"a": 1, "b": "x"}, {"b": "x", "a": 1}])
COLUMNS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9), max_size=3)


class Size(IntEnum):
    BIG = 1


class Color(StrEnum):
    RED = "x"


MOMENT = datetime(2026, 1, 1, 12, tzinfo=UTC)
VALUES = [
    *("x", 1, True, 1.5, None, Color.RED, Size.BIG, Decimal("1.0"), b"x", UUID(int=1)),
    *(MOMENT, MOMENT.date(), MOMENT.time(), ["x"]),
]


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    table, key = draw(st.sampled_from(["t", "u"])), draw(KEYS)
    if draw(st.booleans()):
        return {"op": "delete", "table": table, "key": key}
    return {"op": "upsert", "table": table, "key": key, "values": draw(COLUMNS)}


@given(st.lists(st.lists(changes(), max_size=4), max_size=8), st.integers(0, 8))
def test_they_come_to_the_same(records: list[list[dict[str, Any]]], cut: int) -> None:
    one, other = ReadStore(), ReadStore()
    texts = [orjson.dumps(record) for record in records]
    for at, text in enumerate(texts):
        body = {"view": "v", "stream": "s", "sequence": at, "changes": orjson.loads(text)}
        one.apply([orjson.dumps(body)])
    for at, part in enumerate((texts[:cut], texts[cut:])):
        folding = Folding()
        for text in part:
            folding.add(orjson.loads(text))
        other.apply([folding.record("v", "s", at)])
    assert one.plain() == other.plain()


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_row_is_one_whether_its_changes_were_yielded_or_read(value: Any) -> None:
    key = {"a": value}
    changes: list[Upsert | Delete] = [Delete("t", key), Upsert("t", key, {"x": 1})]
    for found in product([*product(changes, [False, True])], repeat=3):
        mixed, store, wanted = Folding(), ReadStore(), ReadStore()
        for at, (change, plain) in enumerate(found):
            said = encoded({"view": "v", "stream": "s", "sequence": at}, [change])
            wanted.apply([said])
            if plain:
                mixed.add_yielded([change])
            else:
                mixed.add(orjson.loads(said)["changes"])
        store.apply([mixed.record("v", "s", 1)])
        assert (len(mixed), store.plain()) == (1, wanted.plain())


def test_rows_of_every_type_are_folded_as_their_json_is() -> None:
    keys: list[dict[str, Any]] = [
        {"at": MOMENT},
        {"at": MOMENT.astimezone(timezone(timedelta(hours=5)))},
        {"n": Decimal("1.0")},
        {"n": Decimal("1.00")},
        {"raw": b"\0"},
        {"day": MOMENT.date(), "n": Decimal("2E+1")},
        {"n": Decimal(20), "day": MOMENT.date()},
    ]
    changes: list[Upsert | Delete] = [
        Upsert("t", key, {"doc": {"at": MOMENT}, "raw": b"\xff", f"c{at}": Decimal(f"{at}.50")})
        for at, key in enumerate(keys)
    ]
    changes[1:1] = [Delete("t", keys[0])]
    yielded, said = Folding(), Folding()
    yielded.add_yielded(changes)
    said.add(orjson.loads(encoded({"changes": changes}, changes))["changes"])
    assert yielded.record("v", "s", 1) == said.record("v", "s", 1)
    # A moment said with another offset, and 1.00 for 1.0, are the same rows.
    assert len(yielded) == len(said) == 4
