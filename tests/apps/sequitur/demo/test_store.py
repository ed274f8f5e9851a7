from pathlib import Path

import orjson

from sequitur.demo.store import count_rows, stored_offsets
from stores.sinks.sql.sqlite import SqliteSink
from topology import Table

CITIES = Table("cities", key={"id": int}, columns={"name": str})
OTHERS = Table("others", key={"id": int}, columns={"name": str})


def test_it_sees_what_a_sink_has_stored(tmp_path: Path) -> None:
    path = tmp_path / "read store.sqlite"
    assert count_rows(path, [CITIES]) == 0
    assert stored_offsets(path) == {}
    with SqliteSink(path, [CITIES]) as sink:
        sink.apply([("out", 1, offset, record(offset)) for offset in range(5, 8)])
        assert count_rows(path, [CITIES, OTHERS]) == 3
        assert stored_offsets(path) == {("out", 1): 8}
    assert count_rows(path, [CITIES]) == 3


def record(number: int) -> bytes:
    change = {"op": "upsert", "table": "cities", "key": {"id": number}, "values": {"name": "x"}}
    return orjson.dumps({"view": "v", "stream": "s", "sequence": number, "changes": [change]})
