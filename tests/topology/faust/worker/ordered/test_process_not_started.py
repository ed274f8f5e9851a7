"""Where no process can be started for a handler, the partition begins anew, and no event fails."""

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from topology.faust.worker.ordered.own_process import OwnProcess, ProcessNotStarted
from topology.faust.worker.partition import Partition
from topology.faust.worker.runner import Runner


class EmptyPartition(Partition):
    opened = 0

    async def open(self) -> list[Runner]:
        self.opened += 1
        return []


async def test_a_partition_whose_process_cannot_start_begins_anew_and_the_worker_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("topology.faust.worker.partition.RETRY", 0.0)
    crashed: list[BaseException] = []

    async def crash(error: BaseException) -> None:
        crashed.append(error)

    context: Any = SimpleNamespace(
        settings=SimpleNamespace(session_timeout=1), partitions=SimpleNamespace(forget=lambda: None)
    )
    partition = EmptyPartition(TopicPartition("in", 0), context, crash)
    partition.failed(ProcessNotStarted("view work: 4 processes ended before they were ready"))
    again = partition._again
    assert again is not None
    await again
    assert (crashed, partition.opened) == ([], 1)


async def test_what_the_system_refuses_a_process_for_is_no_event_s_doing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refused)
    with pytest.raises(ProcessNotStarted, match="temporarily unavailable"):
        await OwnProcess.started("a:place", "work")
