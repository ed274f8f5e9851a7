"""Streams made anew in the middle of live tables: at one position, in one transaction, once."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from stores.sinks import NotYet, OutputRecord, Position, Sink, StoreError, open_sink


def record(offset: int, sequence: int, *changes: Any, stream: str = "s") -> OutputRecord:
    body = {"view": "v", "stream": stream, "sequence": sequence, "changes": changes}
    return "t.v", 0, offset, orjson.dumps(body)


def upsert(row: int, **values: Any) -> dict[str, Any]:
    return {"op": "upsert", "table": "rows", "key": {"row": row}, "values": values}


def delete(row: int) -> dict[str, Any]:
    return {"op": "delete", "table": "rows", "key": {"row": row}}


def opened(url: str) -> Sink:
    sink = open_sink(url)
    sink.apply([record(0, 1, upsert(1, x=1)), record(4, 5, upsert(2, x=1, y=1))])
    return sink


def replaced(url: str) -> None:
    with opened(url) as sink:
        anew = record(0, 5, delete(1), delete(2), upsert(2, x=2))
        with pytest.raises(NotYet, match=r"has moved on.* at offset 5, not 4"):
            sink.replace_streams([anew], [Position("t.v", 0, 4)])
        with pytest.raises(NotYet, match=r"has moved on.* at offset 0, not 7"):
            sink.replace_streams([anew], [Position("t.v", 1, 7)])
        assert sink.count("rows") == 2

        sink.replace_streams([anew], [Position("t.v", 0, 5), Position("t.v", 1, 0)])
        assert list(sink.rows("rows")) == [{"row": 2, "x": 2}]
        # The stream goes on where it was, and so does the topic.
        assert [(p.partition, p.next_offset, p.applied) for p in sink.progress()] == [(0, 5, 2)]
        done = sink.apply([record(5, 5, upsert(2, x=9)), record(6, 6, upsert(3, x=6))])
        assert (done.duplicates, done.applied) == (1, 1)
        assert list(sink.rows("rows")) == [{"row": 2, "x": 2}, {"row": 3, "x": 6}]

        with pytest.raises(StoreError, match="cannot be applied"):
            sink.replace_streams([("t.v", 0, 0, b"no JSON")], [])
        assert sink.count("rows") == 2


def test_sqlite(tmp_path: Path) -> None:
    replaced(f"sqlite:///{tmp_path / 'read.db'}")


@pytest.mark.integration
def test_postgres(database: str) -> None:
    replaced(database)


@pytest.mark.integration
def test_delta(spark: object, tmp_path: Path) -> None:
    replaced(f"delta:///{tmp_path / 'store'}")


@contextmanager
def cut_off(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    """A store that crashes before it writes down how far it is."""

    def crash(*_: Any) -> None:
        raise InterruptedError

    monkeypatch.setattr("stores.sinks.delta.store.PATIENCE", 0.0)
    # Else it would be in the journal, and a table's rows the last that is written.
    monkeypatch.setattr("stores.sinks.delta.batches.NOTED_MARKS", 0)
    with opened(url) as sink, monkeypatch.context() as patch:
        patch.setattr(sink, "_save_progress", crash)
        yield sink


@pytest.mark.integration
def test_delta_carries_out_what_was_cut_off(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"delta:///{tmp_path / 'store'}"
    with cut_off(url, monkeypatch) as sink, pytest.raises(InterruptedError):
        sink.replace_streams(
            [record(0, 6, delete(1), delete(2), upsert(2, x=2))], [Position("t.v", 0, 5)]
        )
    with open_sink(url) as sink:
        assert list(sink.rows("rows")) == [{"row": 2, "x": 2}]
        done = sink.apply([record(5, 6, upsert(2, x=9)), record(6, 7, upsert(3, x=7))])
        assert (done.duplicates, done.applied) == (1, 1)
        assert list(sink.rows("rows")) == [{"row": 2, "x": 2}, {"row": 3, "x": 7}]


@pytest.mark.integration
def test_delta_waits_until_a_batch_that_was_cut_off_is_whole(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"delta:///{tmp_path / 'store'}"
    with cut_off(url, monkeypatch) as sink:
        batch = [record(5, 6, upsert(2, x=6)), record(6, 7, upsert(2, x=7))]
        with pytest.raises(InterruptedError):
            sink.apply(batch)
    anew, at = record(0, 6, upsert(2, x=5)), [Position("t.v", 0, 6)]
    with open_sink(url) as sink:
        with pytest.raises(NotYet, match="in a batch"):
            sink.replace_streams([anew], [Position("t.v", 0, 5)])
        # Its rows have the second record already, which comes again.
        sink.apply(batch[:1])
        with pytest.raises(NotYet, match="not equally far"):
            sink.replace_streams([anew], at)
        sink.apply(batch[1:])
        assert list(sink.rows("rows")) == [{"row": 1, "x": 1}, {"row": 2, "x": 7, "y": 1}]
