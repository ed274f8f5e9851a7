"""A view's state seen as a Faust table."""

from pathlib import Path

import pytest
from faust.types import TP

import passthrough
from stores.view_state.rocksdb import RocksTable
from topology.faust.worker.store import Store


def test_a_view_s_table_shows_the_engine_s_rows_and_refuses_other_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = passthrough.app
    app.finalize()
    data = app.tables["same"].data  # type: ignore[attr-defined]
    assert isinstance(data, Store)
    tables = [RocksTable(tmp_path / str(partition)) for partition in (0, 1)]
    tables[0].write([(b"pa", b"3")], 8)
    tables[1].write([(b"pb", b"4"), (b"c", b"{}")], 9)
    opened = {("same", number): table for number, table in enumerate(tables)}
    monkeypatch.setattr(app.engine.tables, "_open", opened)

    assert dict(data.items()) == {b"pa": b"3", b"c": b"{}", b"pb": b"4"}
    assert (data[b"pb"], b"pa" in data, b"px" in data, len(data)) == (b"4", True, False, 3)
    assert data.persisted_offset(TP("any", 1)) == 8
    with pytest.raises(TypeError, match="only its engine writes it"):
        data[b"pa"] = b"9"
    with pytest.raises(TypeError, match="only its engine writes it"):
        del data[b"pa"]
    for table in tables:
        table.close()
