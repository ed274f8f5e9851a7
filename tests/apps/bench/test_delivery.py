"""The bench of delivery measures, in small, and writes its page."""

from pathlib import Path
from uuid import uuid4

import pytest

from bench.__main__ import options
from bench.delivery.backlog import Backlog, backlog
from bench.delivery.captures import Rate
from bench.delivery.filling import STREAMS, fill
from bench.delivery.kept import PARTS, Kept
from bench.delivery.latency import WAYS, Latency, latency
from bench.delivery.page import goals_grid, page
from bench.delivery.stage import CONTENT, Stage
from checkout.postgres import Postgres
from stores.db.engines import open_engine
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft
from tests.conftest import BrokerAddress
from tests.forked import spawned


def test_options() -> None:
    found = options(["delivery", "--n", "5_000", "--rate", "10", "--seconds", "2"])
    assert (found.events, found.rate, found.seconds) == (5000, 10, 2.0)


def test_the_page_says_what_was_measured_and_what_was_missed() -> None:
    backlog = [Backlog(1000, r, 30_000.0, 20_000.0, 4.0) for r in (26_000.0, 19_000.0, 25_000.0)]
    latency = [
        Latency(way, 100, asked, 99.0, 20.0, late, 400.0)
        for way in WAYS
        for asked, late in ((10, 12.0), (100, 300.0), (10, 13.0), (100, 301.0))
    ]
    words = [row[-1] for row in goals_grid(backlog, latency).rows]
    assert words == ["at the bound", "NOT met", "NOT met"]
    assert [row[-1] for row in goals_grid(backlog[:1], latency[:2]).rows] == 3 * [
        "no verdict: measured once"
    ]
    rates = [Rate(1, "none", 500.0), Rate(1, "one", 250.0), Rate(1, "two", 100.0)]
    text = page(rates, backlog, latency, {"cores": "2"})
    assert "| 1 writer | 500 | 250 | 100 | 0.50 |" in text
    assert "| 1,000 messages | 25,000 | 30,000 | 20,000 | 4.0 |" in text
    assert "| over HTTP, 100 transactions/s | 99 | 20 | 300 | 400 |" in text
    assert "| cores | 2 |" in text


def test_parts_are_kept_until_all_are_measured(tmp_path: Path) -> None:
    file = tmp_path / "delivery.json"
    kept = Kept.load(file, "a")
    assert kept.missing == [*PARTS]
    kept.latency = [Latency("http", 100, 100, 99.0, 20.0, 300.0, 400.0)]
    kept.loads["latency"] = "0.1, 2.0"
    kept.save(file)
    assert Kept.load(file, "a") == kept
    assert Kept.load(file, "a").missing == ["captures", "backlog"]
    assert Kept.load(file, "b") == Kept("b")
    file.write_text('{"backlog": null}')
    assert Kept.load(file, "a") == Kept("a")


@pytest.mark.integration
def test_a_log_is_filled_as_by_appending(postgres: Postgres) -> None:
    rows = []
    for way in ("filled", "appended"):
        engine = open_engine(postgres.new_database(f"test-{uuid4().hex[:8]}"))
        log = MessageLog()
        if way == "filled":
            fill(engine, log, "t", 7_003)
        else:
            log.create(engine)
            drafts = [
                Draft("t", f"stream-{at % STREAMS}", "Filled", b"x" * CONTENT)
                for at in range(7_003)
            ]
            with engine.begin() as connection:
                Outbox(log).capture_many(connection, drafts)
        with engine.begin() as connection:
            messages = log.read_after(connection, limit=10_000).messages
            rows.append(sorted((m.stream, m.sequence, m.kind, m.content) for m in messages))
            assert Outbox(log).capture(connection, "t", "stream-2002", "More", b"") == 3
            assert Outbox(log).capture(connection, "t", "stream-2003", "More", b"") == 2
        engine.dispose()
    assert rows[0] == rows[1]


@pytest.mark.integration
def test_a_small_run(
    tmp_path: Path, postgres: Postgres, broker: BrokerAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.delivery.stage.spawn", spawned)
    where = Stage(postgres, broker, tmp_path)
    drained = backlog(where, 1_000)
    assert drained.messages == 1_000
    assert drained.rate > 0
    found = [latency(where, 20, 40, way) for way in WAYS]
    for late in found:
        assert late.messages == 20
        assert 0 < late.p50 <= late.p99 <= late.most
    assert "| 1,000 messages |" in page([], [drained], found, {})
