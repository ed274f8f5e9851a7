"""What a materializer says is dead is what its tables lack, whoever switched them meanwhile."""

from contextlib import nullcontext
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from sequitur.materialize import query
from sequitur.materialize.open_sink import dead_of
from sequitur.materialize.query import Settings, materialize
from sequitur.materialize.report import Report
from stores.sinks import OutputRecord, open_sink
from topology import Table

TOPIC = "shop.board"
TEXT = Table("board", key={"id": int}, columns={"n": str})
NUMBER = Table("board", key={"id": int}, columns={"n": int})
SPARK: Any = SimpleNamespace(
    conf=SimpleNamespace(set=lambda *_: None), sparkContext=SimpleNamespace(master="local[1]")
)


class _Query:
    """As much of a query as is looked at."""

    id, isActive, lastProgress = "query", True, None
    status = {"message": "Waiting for data"}  # noqa: RUF012

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> None:
        return None


def record(n: Any) -> OutputRecord:
    change = {"op": "upsert", "table": "board", "key": {"id": 1}, "values": {"n": n}}
    body = {"view": "board", "stream": "1", "sequence": 1, "changes": [change]}
    return TOPIC, 0, 0, orjson.dumps(body)


@pytest.mark.parametrize("counted", ["while it runs", "when it stops"])
@pytest.mark.parametrize(
    ("live", "rebuilt", "of", "dead"), [(TEXT, NUMBER, "x", 1), (NUMBER, NUMBER, 1, 0)]
)
def test_behind_a_switch_it_tells_of_the_tables_that_are_there(
    live: Table, rebuilt: Table, of: Any, dead: int, counted: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    running = counted == "while it runs"
    for name, value in {
        "LOOK_SECONDS": 0,
        "CHANGED_SECONDS": 0,
        "RECOUNT_SECONDS": 0 if running else 60,
        "Checkpoint": lambda *_: SimpleNamespace(committed=-1, planned=-1, offsets=lambda _: None),
        "start": lambda *_: _Query(),
        "_silent": lambda *_: nullcontext(),
    }.items():
        monkeypatch.setattr(query, name, value)
    url, stop, told = f"sqlite:///{tmp_path}/read.db", Event(), list[Any]()
    status = tmp_path / "status.json"
    report = Report("broker", [TOPIC], status)

    def changed() -> bool:
        told.append(report.content({}, 0, running=True)["dead_records"])
        if len(told) == 1:
            with open_sink(url, [rebuilt], "next") as shadow:
                shadow.apply([record(of)])
            with open_sink(url) as other:
                other.switch("next", [TOPIC])
        if not running or len(told) == 2:
            stop.set()
        return False

    with open_sink(url, [live]) as sink:
        sink.apply([record("x")])
        report.begin([TOPIC], dead_of(sink, [TOPIC]))
        settings = Settings("broker", [TOPIC], "checkpoint")
        assert not materialize(SPARK, sink, settings, stop, report, changed)
    assert told == [1 - dead, dead][: 1 + running]
    assert report.left().partition(" could")[0] == ("1 record" if dead else "")
    assert orjson.loads(status.read_bytes())["dead_records"] == dead
