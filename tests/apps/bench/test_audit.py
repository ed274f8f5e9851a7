import orjson
import pytest

from bench.audit import Audit, audit
from bench.scenarios.upsert import changes
from bench.workload import body


def events(*numbers: tuple[int, int]) -> list[bytes]:
    return [body(stream, sequence, 1) for stream, sequence in numbers]


def test_each_stream_once_and_in_sequence_is_right_however_they_mix() -> None:
    found = audit(events((1, 1), (2, 1), (1, 2), (1, 3)), {"1": 3, "2": 1})
    assert found == Audit(records=4, streams=2)
    assert found.problem() == ""


@pytest.mark.parametrize(
    ("numbers", "problem"),
    [
        ([(1, 1), (1, 3), (1, 2)], "1 records after a gap, 1 records twice"),
        ([(1, 1), (1, 1), (1, 2), (1, 3)], "1 records twice"),
        ([(1, 1), (1, 2)], "1 streams that do not end where the input does"),
        ([(1, 1), (1, 2), (1, 3), (2, 1)], "1 streams that do not end where the input does"),
        ([], "1 streams that do not end where the input does"),
    ],
)
def test_what_is_wrong_is_said(numbers: list[tuple[int, int]], problem: str) -> None:
    assert audit(events(*numbers), {"1": 3}).problem() == problem


def test_at_least_once_may_repeat_but_not_skip() -> None:
    repeated = audit(events((1, 1), (1, 2), (1, 1), (1, 2), (1, 3)), {"1": 3})
    assert repeated.problem(once=False) == ""
    assert audit(events((1, 1), (1, 3)), {"1": 3}).problem(once=False)


def test_row_changes_are_audited_by_their_own_stream_and_sequence() -> None:
    changes = [
        orjson.dumps({"view": "v", "stream": "7", "sequence": sequence, "changes": []})
        for sequence in (1, 2)
    ]
    assert audit(changes, {"7": 2}).problem() == ""


def test_row_changes_are_looked_at_where_they_are_known() -> None:
    def record(sequence: int, **values: object) -> bytes:
        right = [{**each, "values": {**each["values"], **values}} for each in changes(7, sequence)]  # type: ignore[dict-item]
        return orjson.dumps({"stream": "7", "sequence": sequence, "changes": right})

    assert audit([record(1), record(2)], {"7": 2}, changes).problem() == ""
    found = audit([record(1), record(2, amount=12.6)], {"7": 2}, changes)
    assert found.problem() == "1 records with other row changes"
    assert audit([record(1, seq=2)], {"7": 1}).problem() == ""
