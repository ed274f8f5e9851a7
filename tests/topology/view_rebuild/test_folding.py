"""Many changes of a row are one."""

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.view_rebuild.rows import ReadStore
from topology import Delete, Upsert
from topology.model.change_json import encoded
from topology.view_rebuild.folding import Folding

KEYS = st.sampled_from([{"a": 1}, {"a": True}, {"a": 1, "b": "x"}, {"b": "x", "a": 1}])
COLUMNS = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9), max_size=3)


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


def test_rows_of_every_type_are_folded_as_their_json_is() -> None:
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    keys: list[dict[str, Any]] = [
        {"at": moment},
        {"at": moment.astimezone(timezone(timedelta(hours=5)))},
        {"n": Decimal("1.0")},
        {"n": Decimal("1.00")},
        {"raw": b"\0"},
        {"day": moment.date(), "n": Decimal("2E+1")},
        {"n": Decimal(20), "day": moment.date()},
    ]
    changes: list[Upsert | Delete] = [
        Upsert("t", key, {"doc": {"at": moment}, "raw": b"\xff", f"c{at}": Decimal(f"{at}.50")})
        for at, key in enumerate(keys)
    ]
    changes[1:1] = [Delete("t", keys[0])]
    yielded, said = Folding(), Folding()
    yielded.add_yielded(changes)
    said.add(orjson.loads(encoded({"changes": changes}, changes))["changes"])
    assert yielded.record("v", "s", 1) == said.record("v", "s", 1)
    # A moment said with another offset, and 1.00 for 1.0, are the same rows.
    assert len(yielded) == len(said) == 4
