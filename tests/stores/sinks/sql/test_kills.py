"""A process that is killed (SIGKILL) between any two steps of a batch, into the SQL read stores."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stores.sinks import Batch, OutputRecord, open_sink
from stores.sinks.contract import ORDERS, TOPIC, delete, upsert, value
from stores.sinks.sql.sink import SqlSink
from stores.sinks.sql.transaction import SqlTransaction
from tests.forked import context

pytestmark = pytest.mark.integration

STEPS = (
    *("make_tables", "delete", "upsert", "save_streams"),
    *("save_positions", "save_dead", "save_batch", "apply"),
)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_process_killed_at_any_step_leaves_a_batch_whole_or_not_there(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    sqlite = f"sqlite:///{tmp_path}/read.db"
    url = sqlite if kind == "sqlite" else str(request.getfixturevalue("database"))
    with open_sink(url, [ORDERS]):
        pass
    cuts = [(step, when) for step in STEPS for when in ("before", "after")]
    offset = 0
    for number, ((step, when), records) in enumerate(zip(cuts, _batches(), strict=False)):
        _apply_and_die(url, step, when, number, records)
        with open_sink(url, [ORDERS]) as sink:
            committed = (step, when) == ("apply", "after")
            before = number - 1 if number else None
            assert sink.last_batch("query") == (number if committed else before), (step, when)
            done = sink.apply(records, Batch("query", number))
            assert (done.applied, done.replayed) == ((0, 4) if committed else (3, 0)), step
            offset += len(records)
            assert [p.next_offset for p in sink.progress()] == [offset]
            assert list(sink.rows("orders")) == [{"id": 2, "state": f"{number}", "total": number}]
            assert sink.count("notes") == number + 1


def _batches() -> Iterator[list[OutputRecord]]:
    """Batches of an upsert, a delete, a new column, and a record that is dead."""
    for number in range(2 * len(STEPS)):
        sequence = 3 * number
        changes = [
            [upsert("orders", {"id": 1}, state="gone"), upsert("notes", {"id": number}, text="x")],
            [delete("orders", {"id": 1}), delete("orders", {"id": 2})],
            [upsert("orders", {"id": 2}, state=f"{number}", total=number)],
        ]
        bodies = [value("a", sequence + at, *each) for at, each in enumerate(changes)]
        yield [(TOPIC, 0, 4 * number + at, body) for at, body in enumerate([*bodies, b"dead"])]


def _apply_and_die(
    url: str, step: str, when: str, number: int, records: list[OutputRecord]
) -> None:
    process = context.Process(target=_apply, args=(url, step, when, number, records))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def _apply(url: str, step: str, when: str, number: int, records: list[OutputRecord]) -> None:
    owner = SqlSink if step == "apply" else SqlTransaction
    sink, plain = open_sink(url), getattr(owner, step)

    def killed(*arguments: Any) -> None:
        if when == "after":
            plain(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, step, killed)
    sink.apply(records, Batch("query", number))
