"""The bench of delivery measures, in small, and writes its page."""

from pathlib import Path

import pytest

from apps.bench.__main__ import options
from apps.bench.capture import Rate
from apps.bench.delivery.backlog import Backlog, backlog
from apps.bench.delivery.latency import Latency, latency
from apps.bench.delivery.page import goals_grid, page
from apps.bench.delivery.run import DeliveryOptions
from apps.bench.delivery.stage import Stage
from apps.local.postgres import Postgres
from tests.conftest import BrokerAddress


def test_options() -> None:
    found = options(["delivery", "--n", "5_000", "--rate", "10", "--seconds", "2"])
    assert isinstance(found, DeliveryOptions)
    assert (found.n, found.rate, found.seconds) == (5000, 10, 2.0)


def test_the_page_says_what_was_measured_and_what_was_missed() -> None:
    backlog = Backlog(1000, 25_000.0, 30_000.0, 20_000.0, 4.0)
    latency = Latency(100, 99.0, 20.0, 300.0, 400.0)
    words = [row[-1] for row in goals_grid(backlog, latency).rows]
    assert words == ["met", "missed", "missed"]
    rates = [Rate(1, "none", 500.0), Rate(1, "one", 250.0), Rate(1, "two", 100.0)]
    text = page(rates, backlog, latency, {"cores": "2"})
    assert "| 1 writer | 500 | 250 | 100 | 0.50 |" in text
    assert "| 1,000 messages | 25,000 | 30,000 | 20,000 | 4.0 |" in text
    assert "| cores | 2 |" in text


@pytest.mark.integration
def test_a_small_run(tmp_path: Path, postgres: Postgres, broker: BrokerAddress) -> None:
    where = Stage(postgres, broker, tmp_path)
    drained = backlog(where, 1_000)
    assert drained.messages == 1_000
    assert drained.rate > 0
    late = latency(where, 20, 40)
    assert late.messages == 20
    assert 0 < late.p50 <= late.p99 <= late.most
    assert "| 1,000 messages |" in page([], drained, late, {})
