"""A table with rules that was made by hand, and upserts that name some of its columns only."""

from typing import Any

from stores.sinks import Sink
from stores.sinks.contract import TOPIC, upsert, value

RULED = (
    "CREATE TABLE o (s {0}, id BIGINT, must BIGINT NOT NULL, has BIGINT NOT NULL DEFAULT 5, "
    "a BIGINT, b BIGINT, CHECK (a IS NOT NULL OR b IS NOT NULL), PRIMARY KEY (s, id))"
)


def check_ruled(sink: Sink, rows: int) -> None:
    """Upsert `rows` rows at a time, each a record, into a store that has RULED."""
    offset = 0

    def dead(name: str, op: str = "upsert", **values: Any) -> int:
        nonlocal offset
        records = []
        for n in range(rows):
            changes = [upsert("o", {"s": name, "id": n}, **values)]
            if op == "anew":
                changes.insert(0, {"op": "delete", "table": "o", "key": changes[0]["key"]})
            records.append((TOPIC, 0, offset, value(f"{name}{n}", offset, *changes)))
            offset += 1
        return sink.apply(records).dead

    assert dead("x", a=1) == rows
    assert dead("x", must=1) == rows
    assert dead("x", must=1, a=1) == 0
    assert dead("x", must=2) == dead("x", b=3) == dead("x") == dead("x", has=6) == 0
    assert dead("x", must=None) == dead("x", "anew", a=1) == rows
    row = {"s": "x", "must": 2, "has": 6, "a": 1, "b": 3}
    found = [{**each, "s": each["s"].strip()} for each in sink.rows("o")]
    assert found == [{**row, "id": n} for n in range(rows)]
    assert dead("x", a=None) == dead("x", "anew", must=7, b=8) == 0
    assert [(each["has"], each.get("a")) for each in sink.rows("o")] == [(5, None)] * rows
