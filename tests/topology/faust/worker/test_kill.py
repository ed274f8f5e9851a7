"""Workers are killed, stopped, paused, damaged: outputs and states come out as if they were not."""

import random
from collections.abc import Callable

import pytest

from soak.chaos import Soak, let_work
from soak.check import check, fold, read
from soak.harms import harm
from soak.worked import WORKED
from soak.workload import Workload, workload
from topology.engine.state.rows import WORK
from topology.engine.state.work_status import decode_work_status

pytestmark = pytest.mark.integration

STREAMS = 200


def run(soak: Soak, work: Workload, seed: int, harms: int, names: list[str]) -> None:
    """Process `work` while `harms` bad things happen to the workers, and stop them in order."""
    chance = random.Random(seed)
    soak.fill(work)
    for name in names:
        soak.start(name)
    for _ in range(harms):
        let_work(soak, chance.randrange(2 * len(work.messages) // harms), 12)
        harm(soak, chance, names)
    soak.wait(240)
    # A worker that was started a moment ago may not even have a handler for SIGTERM yet.
    assert set(soak.stop_all().values()) <= {0, -15}


def test_exactly_once_over_kills_of_two_workers(soaks: Callable[..., Soak]) -> None:
    soak, work = soaks(), workload(20_000, STREAMS, seed=1)
    run(soak, work, 1, 6, ["a", "b"])
    assert check(soak.broker, soak.prefix, work, soak.data("a")) == []


def test_exactly_once_over_kills_of_a_single_worker(soaks: Callable[..., Soak]) -> None:
    soak, work = soaks(), workload(12_000, STREAMS, seed=2)
    run(soak, work, 2, 3, ["a"])
    assert check(soak.broker, soak.prefix, work, soak.data("a")) == []


def test_at_least_once_over_kills_repeats_nothing_but_what_it_said(
    soaks: Callable[..., Soak],
) -> None:
    soak, work = soaks(guarantee="at_least_once"), workload(15_000, STREAMS, seed=3)
    run(soak, work, 3, 4, ["a", "b"])
    assert check(soak.broker, soak.prefix, work, soak.data("b"), once=False) == []


def test_views_with_workers_lose_and_repeat_nothing_over_kills_roll_backs_and_parked_streams(
    soaks: Callable[..., Soak],
) -> None:
    soak, work = soaks(worked=True), workload(2_000, 20, seed=5)
    chance = random.Random(5)
    soak.fill(work)
    for name in "ab":
        soak.start(name)
    for name in "ba":
        let_work(soak, len(work.messages), 2 + 2 * chance.random())
        soak.kill(name)
        soak.start(name)
    soak.wait(240)
    rows = fold(read(soak.broker, f"{soak.prefix}-{WORKED[0]}.arrivals-changelog"))
    statuses = [decode_work_status(row) for (_, key), row in rows.items() if key == WORK]
    assert sum(status.counts["rolled_back"] for status in statuses) > 0
    assert any(key[:1] == b"b" for _, key in rows), "nothing is parked"
    soak.redrive()
    assert set(soak.stop_all().values()) <= {0, -15}
    assert check(soak.broker, soak.prefix, work, soak.data("a"), worked=True) == []


def test_a_worker_that_was_taken_for_dead_writes_nothing_when_it_wakes(
    soaks: Callable[..., Soak],
) -> None:
    soak, work = soaks(), workload(15_000, STREAMS, seed=4)
    soak.fill(work)
    soak.start("a")
    soak.ready("a")
    let_work(soak, len(work.messages) // 4, 30)
    soak.pause("a")
    soak.start("b")
    soak.ready("b")  # it has all partitions, and works on
    let_work(soak, len(work.messages) // 4, 20)
    soak.resume("a")
    soak.wait(240)
    assert set(soak.stop_all().values()) == {0}
    assert check(soak.broker, soak.prefix, work) == []
