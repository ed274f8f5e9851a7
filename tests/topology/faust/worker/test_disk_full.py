"""A worker's disk is full: it says so, waits for room and loses, repeats and spoils nothing."""

from collections.abc import Callable

import pytest

from soak.chaos import Soak
from soak.check import check
from soak.workload import Workload, workload

pytestmark = pytest.mark.integration


@pytest.fixture
def work() -> Workload:
    return workload(16_000, 4_000, seed=8)


def without_room(soak: Soak, work: Workload) -> None:
    """Let a worker do a part, take its disk away, and wait until it says so again and again."""
    part = len(work.messages) // 3
    soak.fill(Workload(work.messages[:part], {}))
    soak.start("a")
    soak.wait(60)
    soak.fill_disk("a")
    soak.send(work.messages[part:])
    soak.says("a", "make room on the disk")
    # It fails while it runs, then when it is to start: after that each try comes later.
    soak.says("a", "trying again in 4 s")
    said = soak.said("a").decode()
    assert f"cannot open the table in {soak.data('a')}" in said
    tries = sum("cannot start" in line or "starts again" in line for line in said.splitlines())
    assert tries < 50, "it tries again and again"


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_worker_goes_on_by_itself_when_there_is_room_again(
    soaks: Callable[..., Soak], work: Workload, guarantee: str
) -> None:
    soak = soaks(guarantee=guarantee)
    without_room(soak, work)
    soak.free_disk("a")
    soak.wait(120)
    assert soak.stop_all() == {"a": 0}
    once = guarantee == "exactly_once"
    assert check(soak.broker, soak.prefix, work, soak.data("a"), once=once) == []


def test_a_worker_without_room_ends_when_it_is_told_to(
    soaks: Callable[..., Soak], work: Workload
) -> None:
    soak = soaks()
    without_room(soak, work)
    assert soak.stop("a") == 0
    soak.start("a")
    soak.wait(120)
    assert soak.stop_all() == {"a": 0}
    assert check(soak.broker, soak.prefix, work, soak.data("a")) == []
