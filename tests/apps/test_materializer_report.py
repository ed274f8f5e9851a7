"""What the materializer says of itself while it runs."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from apps.materializer_report import Done, Report, lag
from stores.sink import Applied

SOURCE = {
    "latestOffset": '{"a": {"0": 10, "10": 5, "2": 4}, "b": {"0": 3}}',
    "endOffset": '{"a": {"0": 8, "10": 5, "2": 4}}',
}


def _query(source: dict[str, Any] | None, *, active: bool = True) -> Any:
    progress = None if source is None else {"sources": [source], "batchId": 4}
    return cast(
        Any,
        SimpleNamespace(
            lastProgress=progress, isActive=active, status={"message": "Waiting for data"}
        ),
    )


def _done() -> Done:
    done = Done()
    done.add(3, Applied(records=5, applied=4, dead=1, upserts=3), 0.5)
    done.add(4, Applied(records=7, applied=5, replayed=1, duplicates=1, deletes=2), 0.25)
    return done


def test_lag_is_what_the_last_batch_left() -> None:
    assert lag(SOURCE) == 5
    assert lag({"latestOffset": None, "endOffset": "null"}) == 0


def test_the_status_file_says_how_far_it_is(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    report = Report("broker", ["a", "b", "c"], file)
    report.look(_query(SOURCE), _done(), last=True)
    status = json.loads(file.read_text())
    assert status.pop("at").endswith("Z")
    assert status["batch"].pop("at").endswith("Z")
    assert status.pop("records_per_second") > 0
    assert status == {
        "running": False,
        "lag": 5,
        "batch": {"number": 4, "seconds": 0.25, "records": 7, "upserts": 0, "deletes": 2},
        "since_start": {
            "batches": 2,
            "records": 12,
            "applied": 9,
            "replayed": 1,
            "duplicates": 1,
            "dead": 1,
        },
        "partitions": [
            {"topic": "a", "partition": 0, "next_offset": 8, "end": 10},
            {"topic": "a", "partition": 2, "next_offset": 4, "end": 4},
            {"topic": "a", "partition": 10, "next_offset": 5, "end": 5},
            {"topic": "b", "partition": 0, "next_offset": 0, "end": 3},
        ],
        "missing_topics": ["c"],
    }
    assert [found.name for found in tmp_path.iterdir()] == ["status.json"]


def test_the_status_file_is_written_before_anything_is_read(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    report = Report("broker", ["a"], file)
    report.status_at -= 2
    report.look(_query(None), Done())
    status = json.loads(file.read_text())
    assert (status["running"], status["lag"], status["batch"]) == (True, None, None)


def test_a_status_file_that_cannot_be_written_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = Report("broker", ["a"], tmp_path / "no" / "status.json")
    report.look(_query(SOURCE), _done(), last=True)
    assert "status: " in caplog.text


def test_a_line_says_what_happened(caplog: pytest.LogCaptureFixture) -> None:
    report = Report("broker", ["a", "b"])
    with caplog.at_level(logging.INFO):
        report.look(_query(SOURCE), _done())
        assert caplog.text == ""
        report.look(_query(SOURCE), _done(), last=True)
        assert "12 records in 2 batches" in caplog.text
        assert "1 dead; 5 behind" in caplog.text
        caplog.clear()
        report.look(_query(SOURCE), _done(), last=True)
        assert caplog.text == ""
