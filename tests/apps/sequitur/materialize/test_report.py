"""What the materializer says of itself while it runs."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sequitur.materialize.report import STALE_SECONDS, Report, lag
from stores.sinks import Applied

SOURCE = {
    "latestOffset": '{"a": {"0": 10, "10": 5, "2": 4}, "b": {"0": 3}}',
    "endOffset": '{"a": {"0": 8, "10": 5, "2": 4}, "b": {"0": 0}}',
}


def _query(source: dict[str, Any] | None, *, active: bool = True) -> Any:
    progress = None if source is None else {"sources": [source], "batchId": 4}
    return cast(
        Any,
        SimpleNamespace(
            lastProgress=progress, isActive=active, status={"message": "Waiting for data"}
        ),
    )


def _report(topics: list[str], status: Path | None = None, dead: int = 0) -> Report:
    """One that has seen two batches."""
    report = Report("broker", topics, status)
    report.begin(topics, dead)
    report.done.add(3, Applied(records=5, applied=4, dead=1, upserts=3), 0.5)
    report.done.add(4, Applied(records=7, applied=5, replayed=1, duplicates=1, deletes=2), 0.25)
    return report


def test_lag_is_what_the_last_batch_left() -> None:
    assert lag(SOURCE) == 5


@pytest.mark.parametrize(
    "source",
    [
        {},
        {"latestOffset": None, "endOffset": "null"},
        {"latestOffset": "{}", "endOffset": "{}"},
        {"latestOffset": None, "endOffset": '{"a": {"0": 8}}'},
        {"latestOffset": '{"a": {"0": 8}}', "endOffset": None},
        {"latestOffset": '{"a": {"0": 8}, "b": {"0": 0}}', "endOffset": '{"a": {"0": 8}}'},
    ],
)
def test_it_is_never_0_behind_before_it_knows(
    source: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "status.json"
    report = _report(["a"], file)
    assert lag(source) is None
    with caplog.at_level(logging.INFO):
        report.look(_query({"latestOffset": None, **source}), last=True)
    status = json.loads(file.read_text())
    assert (status["lag"], status["lag_age"]) == (None, None)
    assert "it is not known yet how far behind" in caplog.text
    assert " 0 behind" not in caplog.text
    for partition in status["partitions"]:
        assert partition["next_offset"] == lag_of(source, partition)


def lag_of(source: dict[str, Any], partition: dict[str, Any]) -> Any:
    """What Spark said of a partition's end, None where it said nothing."""
    said = json.loads(source["endOffset"] or "{}")
    return said.get(partition["topic"], {}).get(str(partition["partition"]))


def test_no_figure_is_there_before_it_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    report = Report("broker", ["a"], file)
    report.status_at -= 2
    report.look(_query(None))
    status = json.loads(file.read_text())
    for name in ("lag", "lag_age", "records_per_second", "dead_records", "batch", "problem"):
        assert status[name] is None


def test_a_figure_that_is_old_says_how_old(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "status.json"
    report, query = _report(["a", "b"], file), _query(SOURCE)
    report.look(query, last=True)
    report.known_at -= STALE_SECONDS + 60
    report.at -= 60
    for _ in range(2):
        report.status_at -= 2
        report.at -= 60
        report.look(query)
    status = json.loads(file.read_text())
    assert status["lag"] == 5
    assert status["lag_age"] >= 90
    assert caplog.text.count("nothing new is known of how far behind it is") == 1
    query.lastProgress["timestamp"] = "later"
    report.look(query, last=True)
    assert json.loads(file.read_text())["lag_age"] < 30


def test_the_last_words_name_dead_rows_and_problems() -> None:
    assert Report("broker", ["a"]).left() == ""
    report = _report(["a"], dead=3)
    assert report.left() == "4 records could not be applied: see the table _dead"
    report.tell_problem("the store refuses it")
    assert report.left().endswith("_dead; the store refuses it")
    report.begin(["a", "b"], 4)
    assert report.left().startswith("4 records")


def test_the_status_file_says_how_far_it_is(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    report = _report(["a", "b", "c"], file, dead=2)
    report.look(_query(SOURCE), last=True)
    status = json.loads(file.read_text())
    assert status.pop("at").endswith("Z")
    assert status["batch"].pop("at").endswith("Z")
    assert status.pop("records_per_second") > 0
    assert status.pop("lag_age") < 60
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
        "dead_records": 3,
        "problem": None,
        "partitions": [
            {"topic": "a", "partition": 0, "next_offset": 8, "end": 10},
            {"topic": "a", "partition": 2, "next_offset": 4, "end": 4},
            {"topic": "a", "partition": 10, "next_offset": 5, "end": 5},
            {"topic": "b", "partition": 0, "next_offset": 0, "end": 3},
        ],
        "missing_topics": ["c"],
    }
    assert [found.name for found in tmp_path.iterdir()] == ["status.json"]


def test_the_status_file_says_that_it_has_ended_and_why(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    report = _report(["a", "b", "c"], file)
    report.status_at -= 2
    report.look(_query(SOURCE))
    assert json.loads(file.read_text())["running"]
    report.tell_problem("a new version cannot be read")
    report.end(None)
    ended = json.loads(file.read_text())
    assert (ended["running"], ended["lag"]) == (False, 5)
    assert ended["problem"] == "a new version cannot be read"
    report.end("the store is gone")
    assert json.loads(file.read_text())["problem"] == "the store is gone"


def test_the_status_file_is_written_before_anything_is_read(tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    report = Report("broker", ["a"], file)
    report.status_at -= 2
    report.look(_query(None))
    status = json.loads(file.read_text())
    assert (status["running"], status["lag"], status["batch"]) == (True, None, None)


def test_a_status_file_that_cannot_be_written_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = _report(["a"], tmp_path / "no" / "status.json")
    report.look(_query(SOURCE), last=True)
    assert "status: " in caplog.text


def test_a_line_says_what_happened(caplog: pytest.LogCaptureFixture) -> None:
    report = _report(["a", "b"], dead=2)
    with caplog.at_level(logging.INFO):
        caplog.clear()
        report.look(_query(SOURCE))
        assert caplog.text == ""
        report.look(_query(SOURCE), last=True)
        assert "12 records in 2 batches" in caplog.text
        assert "1 dead (and 2 before); 5 behind" in caplog.text
        caplog.clear()
        report.look(_query(SOURCE), last=True)
        assert caplog.text == ""
