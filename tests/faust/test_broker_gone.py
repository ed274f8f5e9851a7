"""The broker goes away: outputs and states survive it, and a worker still ends when told to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from apps.local.broker import Broker
from apps.soak.chaos import Soak, let_work
from apps.soak.check import check
from apps.soak.workload import workload

pytestmark = pytest.mark.integration


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that the test may kill; its changelogs are compacted as soon as they can be."""
    broker = Broker(tmp_path / "broker", settings={"log.cleaner.backoff.ms": "500"})
    broker.start()
    yield broker
    broker.stop()


def test_a_killed_broker_and_a_compacted_changelog_change_nothing(
    own_broker: Broker, tmp_path: Path
) -> None:
    soak = Soak(own_broker.address, "gone", tmp_path / "workers")
    work = workload(40_000, streams=200, seed=7)
    try:
        soak.fill(work)
        soak.start("a")
        let_work(soak, 15_000, 30)
        own_broker.kill()
        # A worker without a broker ends when it is told to, and nothing of its step is kept.
        assert soak.stop("a") == 0
        lines = (soak.folder / "a.log").read_text().count("\n")
        assert lines < 3000, "the log is flooded"
        own_broker.start()
        soak.compact()
        soak.start("a")
        let_work(soak, 15_000, 30)
        own_broker.kill()
        own_broker.start()
        soak.wait(120)
        soak.stop_all()
        soak.forget("a")
        soak.start("a")
        soak.ready("a")
        assert soak.stop_all() == {"a": 0}
    finally:
        for name in list(soak.workers):
            soak.kill(name)
    assert check(own_broker.address, "gone", work, soak.data("a"), compacted=True) == []
