"""Many changes of a row are one."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.rebuilding.rows import ReadStore
from topology.rebuilding.folding import Folding

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
    import orjson

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
