"""A worker's disk is full: it says so, waits for room and loses, repeats and spoils nothing."""

from collections.abc import Callable

import pytest

from soak.chaos import Soak
from soak.check import check
from soak.workload import Workload, workload

pytestmark = pytest.mark.integration


@pytest.fixture
def work() -> Workload:
    return workload(26_000, 4_000, seed=8)


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_worker_without_room_ends_when_it_is_told_to_and_goes_on_by_itself_when_there_is_some(
    soaks: Callable[..., Soak], work: Workload, guarantee: str
) -> None:
    soak = soaks(guarantee=guarantee)
    # Each part behind the first fills the memory of every table, which is then to be written.
    part = len(work.messages) // 5
    soak.fill(Workload(work.messages[:part], {}))
    soak.start("a")
    soak.wait(240)
    soak.fill_disk("a")
    soak.send(work.messages[part : 3 * part])
    soak.says("a", "make room on the disk")
    if guarantee == "exactly_once":
        assert soak.stop("a") == 0
        soak.start("a")
        soak.wait(240)
        soak.fill_disk("a")
    soak.send(work.messages[3 * part :])
    # It fails while it runs, then when it is to start: after that each try comes later.
    soak.says("a", "trying again in 4 s")
    said = soak.said("a").decode()
    assert f"cannot open the table in {soak.data('a')}" in said
    tries = sum("cannot start" in line or "starts again" in line for line in said.splitlines())
    assert tries < 50, "it tries again and again"
    soak.free_disk("a")
    soak.wait(240)
    assert soak.stop_all() == {"a": 0}
    once = guarantee == "exactly_once"
    assert check(soak.broker, soak.prefix, work, soak.data("a"), once=once) == []
