"""The broker goes away: outputs and states survive it, and a worker still ends when told to."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequitur.local.broker import Broker
from soak.chaos import Soak, let_work
from soak.check import check, read
from soak.workload import Workload, workload

pytestmark = pytest.mark.integration

REST = 2000
"""Messages that come last, in four parts: a multiple of four."""


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that the test may kill; its changelogs are compacted as soon as they can be."""
    broker = Broker(tmp_path / "broker", settings={"log.cleaner.backoff.ms": "500"})
    broker.start()
    yield broker
    broker.stop()


def places(broker: Broker, view: str) -> set[tuple[int, int]]:
    """(partition, offset) of the records in a view's changelog."""
    records = read(broker.address, f"gone-{view}-changelog")
    return {(record.partition() or 0, record.offset() or 0) for record in records}


def until_gone(broker: Broker, view: str, written: set[tuple[int, int]]) -> None:
    """Wait until most of what a changelog had once is compacted away."""
    until = time.monotonic() + 150
    while len(written & places(broker, view)) > len(written) / 2:
        assert time.monotonic() < until, f"the changelog of {view} is not compacted"
        time.sleep(0.5)


def test_a_killed_broker_and_a_compacted_changelog_change_nothing(
    own_broker: Broker, tmp_path: Path
) -> None:
    soak = Soak(own_broker.address, "gone", tmp_path / "workers")
    work = workload(20_000, streams=200, seed=7)
    try:
        soak.fill(Workload(work.messages[:-REST], work.totals))
        soak.start("a")
        soak.ready("a")
        let_work(soak, 7_000, 30)
        own_broker.kill()
        # A worker without a broker ends when it is told to, and nothing of its step is kept.
        assert soak.stop("a") == 0
        lines = (soak.folder / "a.log").read_text().count("\n")
        assert lines < 3000, "the log is flooded"
        own_broker.start()
        before = {view: places(own_broker, view) for view in ("ledger", "copies")}
        assert all(before.values())
        soak.compact()
        soak.start("a")
        soak.ready("a")
        let_work(soak, 7_000, 30)
        own_broker.kill()
        own_broker.start()
        let_work(soak, len(work.messages), 20)
        for at in range(len(work.messages) - REST, len(work.messages), REST // 4):
            # A segment is closed by the first record that comes when its time is over.
            time.sleep(1.2)
            soak.send(work.messages[at : at + REST // 4])
        soak.wait(240)
        soak.stop_all()
        for view, written in before.items():
            until_gone(own_broker, view, written)
        soak.forget("a")
        soak.start("a")
        soak.ready("a")
        assert soak.stop_all() == {"a": 0}
    finally:
        soak.close()
    assert check(own_broker.address, "gone", work, soak.data("a"), compacted=True) == []
