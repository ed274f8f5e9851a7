"""What a materializer does when another version of its topology lies there, without Spark."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any, cast

import pytest

from sequitur.materialize import redeploy as materializing_on
from sequitur.materialize.open_sink import OpenSink
from sequitur.materialize.outputs import Deployed, Outputs
from sequitur.materialize.query import Settings
from sequitur.materialize.redeploy import materialize_on
from sequitur.materialize.report import Report
from stores.sinks import Position, Sink, StoreError, open_sink
from topology import DeclarationError, Table

BOARD = Table("board", key={"id": str}, columns={"total": int})
FIRST = Outputs(["shop.board"], [BOARD], "shop.dead-records")
MORE = FIRST._replace(topics=["shop.board", "shop.more"])
REFUSED = FIRST._replace(tables=[replace(BOARD, columns={"total": str})])


class Deploying:
    """As much of a `Deployed` as is looked at; says what it is given, look by look."""

    def __init__(self, *versions: Outputs | str | Callable[[], None] | None) -> None:
        self.outputs, self.read = FIRST, True
        self._versions = list(versions)

    def look(self) -> bool:
        version = self._versions.pop(0)
        if callable(version):
            version = version()
        self.read = not isinstance(version, str)
        if isinstance(version, str):
            raise DeclarationError(version)
        changed = version not in (None, self.outputs)
        self.outputs = version or self.outputs
        return changed


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def run(*versions: Outputs | str | None) -> tuple[list[list[str]], list[str | None], Report]:
        """(topics of each query, the problem behind each look, the report)."""
        queries: list[list[str]] = []
        begun: set[str] = set()
        problems: list[str | None] = []
        left = len(versions)

        def materialize(
            spark: Any, sink: Sink, settings: Settings, stop: Event, report: Report, changed: Any
        ) -> bool:
            nonlocal left
            assert sink.progress() == []  # it is open
            queries.append(list(settings.topics))
            begun.update(settings.topics)
            while left:
                left -= 1
                again = changed()
                problems.append(report.problem)
                if again:
                    return True
            return False

        monkeypatch.setattr(materializing_on, "materialize", materialize)
        monkeypatch.setattr(materializing_on, "topics_read", lambda *_: begun)
        store = OpenSink(f"sqlite:///{tmp_path}/read.db")
        store.open(FIRST)
        report = Report("broker", FIRST.topics)
        settings = Settings("broker", FIRST.topics, "checkpoint")
        deployed = cast(Deployed, Deploying(*versions))
        materialize_on(cast(Any, None), store, settings, Event(), report, deployed)
        store.close()
        return queries, problems, report

    return run


def test_a_new_view_is_read_by_another_query(run: Callable[..., Any]) -> None:
    queries, _, report = run(None, MORE, None)
    assert queries == [FIRST.topics, MORE.topics]
    assert report.topics == MORE.topics
    assert report.problem is None


def test_what_cannot_be_read_is_a_problem_until_it_can(run: Callable[..., Any]) -> None:
    queries, problems, _ = run("no such module", None, FIRST, "again")
    assert queries == [FIRST.topics]
    assert [problem and problem.partition(";")[0] for problem in problems] == [
        *("no such module", None, None, "again")
    ]


def test_what_the_store_refuses_is_a_problem_until_it_is_another_version(
    run: Callable[..., Any],
) -> None:
    queries, problems, report = run(REFUSED, None, MORE, None)
    assert queries == [FIRST.topics, FIRST.topics, MORE.topics]
    assert problems[0] is None
    assert "declared with (total str)" in str(problems[1])
    assert "going on as before" in str(problems[1])
    assert report.problem is None


def test_what_the_store_refuses_is_told_again_when_the_code_can_be_read_again(
    run: Callable[..., Any],
) -> None:
    _, problems, report = run(REFUSED, None, "no such module", None, None)
    assert "no such module" in str(problems[2])
    assert "declared with (total str)" in str(problems[-1])
    assert report.problem == problems[-1]


def test_what_is_dead_of_a_view_that_was_taken_out_stays_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def materialize(
        spark: Any, sink: Sink, settings: Settings, stop: Event, report: Report, changed: Any
    ) -> bool:
        if settings.topics == FIRST.topics:
            return False
        dead = sink.apply([("shop.more", 0, at, b"dead") for at in range(3)])
        report.done.add(0, dead, 0.1)
        return bool(changed())

    monkeypatch.setattr(materializing_on, "materialize", materialize)
    monkeypatch.setattr(materializing_on, "topics_read", lambda *_: set(MORE.topics))
    store, report = OpenSink(f"sqlite:///{tmp_path}/read.db"), Report("broker", MORE.topics)
    store.open(MORE)
    deployed = Deploying(FIRST)
    deployed.outputs = MORE
    settings = Settings("broker", MORE.topics, "checkpoint")
    materialize_on(cast(Any, None), store, settings, Event(), report, cast(Deployed, deployed))
    store.close()
    assert report.topics == FIRST.topics
    assert report.dead == 0
    assert report.left().startswith("3 records")


def test_behind_a_switch_the_dead_records_are_those_of_the_rebuild(tmp_path: Path) -> None:
    store, url = OpenSink(f"sqlite:///{tmp_path}/read.db"), f"sqlite:///{tmp_path}/read.db"
    store.open(FIRST)
    store.sink.apply([("shop.board", 0, 0, b"dead")])
    assert store.dead(FIRST.topics) == 1
    with open_sink(url, FIRST.tables, shadow="next") as shadow:
        shadow.apply([("shop.board", -1, at, b"dead") for at in range(2)])
        shadow.seek([Position("shop.board", 0, 1)])
    store.sink.switch("next", FIRST.topics)
    assert store.dead(FIRST.topics) == 2
    store.close()


def test_what_the_store_refused_is_tried_again(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As after a rebuild, by which its tables are others."""

    def replaced() -> None:
        with sqlite3.connect(tmp_path / "read.db") as database:
            database.execute("DROP TABLE board")

    monkeypatch.setattr(materializing_on, "AGAIN_SECONDS", 0)
    more = REFUSED._replace(topics=MORE.topics)
    queries, problems, report = run(more, None, replaced, None, None)
    assert queries == [FIRST.topics, FIRST.topics, MORE.topics]
    assert [problem is None for problem in problems] == [True, False, False, False, True]
    assert report.problem is None


def test_a_store_that_is_away_when_it_is_opened_anew_ends_it(
    run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(url: str, tables: object) -> Sink:
        if tables is not FIRST.tables or opened:
            raise StoreError("the store is away")
        opened.append(True)
        return open_sink(url, FIRST.tables)

    opened: list[bool] = []
    monkeypatch.setattr("sequitur.materialize.open_sink.open_sink", away)
    with pytest.raises(StoreError, match="away"):
        run(MORE)
