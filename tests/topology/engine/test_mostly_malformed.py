"""A wrong field in an inspector is loud: whoever runs the topology is told, with a sample."""

from typing import Any

import pytest

from topology import Inspector, Record, Topology
from topology.engine.intake import ENOUGH, IntakeCounts, MalformedAlarm
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.testing.driver.storage import DriverStorage

WRONG, RIGHT = '{"id":"a\u202e","number":1}'.encode(), b'{"id":"a","n":1}'


def task_of(keyed: bool) -> Any:
    topology = Topology("shop")
    inspector = Inspector(stream="id", sequence="n")
    source = topology.source("orders", inspector=inspector, keyed=keyed)
    topology.view("v", of=source, handler=lambda event: None)
    if keyed:
        return StreamTask(topology, source, 0, DriverStorage(topology).stores)
    return RekeyTask(topology, source)


def told(task: Any, *values: bytes) -> list[str]:
    """What is told of a batch."""
    records = [Record("orders", 0, at, b"a", value) for at, value in enumerate(values)]
    reports: list[str] = task.process(records, 0).reports
    return [each for each in reports if each.startswith("source orders")]


@pytest.mark.parametrize("keyed", [True, False])
def test_a_source_that_is_not_understood_is_told_of_after_the_first_hundred(keyed: bool) -> None:
    task = task_of(keyed)
    assert told(task, *[WRONG] * 99) == []
    (report,) = told(task, WRONG)
    assert "100 of the last 100 messages are malformed (100%)" in report
    assert "no field 'n'" in report
    assert "Inspector(stream=id, sequence=n)" in report
    assert "orders/0/0" in report
    assert r'"a\u202e"' in report
    assert "\u202e" not in report
    assert "shop.malformed" in report
    assert task.intake.is_loud


def test_it_is_told_again_and_again_but_less_and_less_often() -> None:
    task = task_of(keyed=True)
    reports = sum(len(told(task, *[WRONG] * 10)) for _ in range(1000))
    assert reports == 6  # behind 100, 300, 700, 1500, 3100, 6300


def test_it_is_told_also_by_a_batch_in_which_all_is_well() -> None:
    task = task_of(keyed=True)
    assert told(task, *[WRONG] * 90) == []
    (report,) = told(task, *[RIGHT] * 20)
    assert "90 of the last 110" in report


def test_a_few_malformed_messages_are_not_told_of() -> None:
    task = task_of(keyed=True)
    assert told(task, *[WRONG, RIGHT] * 500) == []
    assert not task.intake.is_loud


def test_a_source_that_goes_wrong_after_it_was_right_is_told_of() -> None:
    task = task_of(keyed=True)
    assert told(task, *[RIGHT] * 5000) == []
    assert len(told(task, *[WRONG] * ENOUGH)) == 1
    assert not task.intake.is_loud


def test_what_was_right_for_a_while_is_told_of_at_once_when_it_goes_wrong_again() -> None:
    alarm = MalformedAlarm()
    assert alarm.note(ENOUGH, ENOUGH)
    assert not alarm.note(2 * ENOUGH, 0)
    assert alarm.note(ENOUGH, ENOUGH) == IntakeCounts(ENOUGH, ENOUGH)


def test_nothing_is_no_share_of_nothing() -> None:
    assert IntakeCounts().malformed_share == 0.0
    assert not IntakeCounts().is_loud
