"""For how long a view has been behind is seen of each view in each partition by itself."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from topology.faust.worker.queries import server as module
from topology.faust.worker.queries.server import QueryServer


def place(view: str, partition: int) -> Any:
    return SimpleNamespace(
        view=SimpleNamespace(name=view), partition=TopicPartition("in", partition)
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def server() -> QueryServer:
    engine: Any = None
    return QueryServer(None, engine)


def test_questions_about_other_partitions_do_not_hide_how_long_one_is_behind(
    clock: SimpleNamespace,
) -> None:
    asked, places = server(), [place("v", number) for number in range(2)]
    for each in places:
        asked._lag(each, 10, 5)
    clock.now = 7.0
    assert [asked._lag(each, 10, 5) for each in places] == [(5, 7.0), (5, 7.0)]


def test_a_view_that_is_further_does_not_hide_how_long_another_is_behind(
    clock: SimpleNamespace,
) -> None:
    asked = server()
    asked._lag(place("further", 0), 10, 10)
    asked._lag(place("behind", 0), 10, 5)
    clock.now = 3.0
    assert asked._lag(place("further", 0), 20, 10) == (10, 0.0)
    assert asked._lag(place("behind", 0), 20, 5) == (15, 3.0)
