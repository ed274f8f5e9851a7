"""What a worker answers over HTTP: figures that add up, and probes that tell the truth."""

import signal
from collections import Counter
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import orjson
import pytest
from aiokafka import TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from tests.topology.faust.worker_process import Worker
from topology.faust.settings import Settings
from topology.monitoring import Lags
from topology.monitoring.figures import SAMPLES

AT = TopicPartition("in", 0)
LABELS = ("view", "topic", "reader", "outcome", "place", "le")

APP = """
import os
from topology import Inspector, Topology, Upsert, key, wait
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream=key(), sequence="seq"), keyed=True, partitions=2,
)

@topology.view("board", of=source, gap=wait())
def board(event):
    yield Upsert("board", key={"id": event.stream}, values={"seq": event.sequence})

@topology.view("slow", of=source, gap=wait())
async def slow(event):
    yield Upsert("slow", key={"id": event.stream}, values={"seq": event.sequence})

app = compile(topology, group=prefix, session_timeout=60, broker_heartbeat_interval=1.0)
"""


@pytest.fixture
def app() -> str:
    return APP


def test_a_lag_is_since_its_end_was_first_seen() -> None:
    lags = Lags()
    assert lags.of(AT, 0, 0.0) is None
    for end, now in ((10, 1.0), (10, 2.0), (30, 3.0), (50, 4.0)):
        lags.note({AT: end}, now)
    assert lags.of(AT, 5, 5.0) == (45, 4.0)
    assert lags.of(AT, 10, 5.0) == (40, 2.0)
    assert lags.of(AT, 50, 6.0) == (0, 0.0)
    lags.note({AT: 7}, 7.0)  # made anew
    assert lags.of(AT, 0, 9.0) == (7, 2.0)
    lags.note({}, 10.0)
    assert lags.of(AT, 0, 10.0) is None


def test_a_reader_that_is_ahead_does_not_hide_how_late_another_one_is() -> None:
    lags = Lags()
    for end, now in ((10, 1.0), (30, 3.0), (50, 4.0)):
        lags.note({AT: end}, now)
        assert lags.of(AT, end, now) == (0, 0.0)
        assert lags.of(AT, 5, now) == (end - 5, now - 1.0)


def test_a_lag_grows_on_however_long_it_lasts() -> None:
    lags = Lags()
    for n in range(5 * SAMPLES):
        lags.note({AT: n + 1}, float(n))
    assert lags.of(AT, 0, 5.0 * SAMPLES) == (5 * SAMPLES, 5.0 * SAMPLES)


@pytest.mark.parametrize(
    ("given", "found"),
    [("9464", "127.0.0.1:9464"), (9464, "127.0.0.1:9464"), ("0.0.0.0:1", "0.0.0.0:1")],
)
def test_a_port_alone_is_one_of_this_machine(given: Any, found: str) -> None:
    assert Settings(metrics=given).metrics == found


@pytest.mark.parametrize("given", ["", "http://a", "a:", "99999", "1:-2", "²"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match="it must be a port, or host:port"):
        Settings(metrics=given)


def asked(worker: Worker, path: str, accept: str = "*/*") -> tuple[int, str]:
    """Status and body of a page of the worker; it listens where its log says."""
    lines = [
        line
        for line in worker.log_file.read_text().splitlines()
        if "metrics, health and readiness: " in line
    ]
    if not lines:
        return 0, ""
    request = Request(lines[-1].split()[-1].strip("'") + path, headers={"Accept": accept})
    try:
        with urlopen(request, timeout=60) as found:
            return found.status, found.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def figures(worker: Worker) -> Counter[tuple[str, ...]]:
    """(name, labels' values but the partition's …) → figure, over all partitions."""
    status, text = asked(worker, "/metrics")
    assert status == 200
    found: Counter[tuple[str, ...]] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = [sample.labels[name] for name in LABELS if name in sample.labels]
            found[(sample.name, *labels)] += sample.value  # type: ignore[assignment]
    return found


@pytest.mark.integration
def test_figures_add_up_and_probes_name_what_does_not_go_on(worker: Worker) -> None:
    worker.start(SEQUITUR_METRICS="0")
    worker.wait_until(lambda: asked(worker, "/ready")[0] == 200)
    one = orjson.dumps({"seq": 1})
    worker.send((b"a", one), (b"a", b'{"seq": 3}'), (b"b", one), (b"b", one), (b"c", b"\xff"))
    source = f"{worker.prefix}.in"

    def settled() -> bool:
        """Whether all of it is read and committed, and the broker was asked since."""
        found = figures(worker)
        return (
            found["sequitur_messages_total", source, "malformed"] == 1
            and found["sequitur_events_total", "slow", "processed"] == 2
            and found["sequitur_oldest_gap_seconds", "board"] > 1.5
            and found["sequitur_lag_records", source, ""] == 0
            and found["sequitur_lag_records", source, "slow"] == 0
            and found["sequitur_commit_seconds_count", source] > 0
        )

    worker.wait_until(settled)
    found = figures(worker)
    events = {
        place: found["sequitur_events_total", "board", place]
        for place in ("received", "processed", "duplicate", "late", "failed")
    }
    assert events == {"received": 4, "processed": 2, "duplicate": 1, "late": 0, "failed": 0}
    assert found["sequitur_held_events", "board", "waiting"] == 1
    assert found["sequitur_held_streams", "board"] == 1
    assert 0 < found["sequitur_oldest_gap_seconds", "board"] < 3600
    assert found["sequitur_lag_records", source, ""] == 0
    assert found["sequitur_lag_seconds", source, "slow"] == 0
    assert found["sequitur_waiting_bytes", source] > 0
    assert {("sequitur_alignment_total", source, each) for each in ("held", "passed")} <= set(found)
    assert found["sequitur_commit_seconds_count", source] > 0
    assert found["sequitur_view_step_seconds_count", "board"] > 0
    assert 0 < found["sequitur_handler_seconds_count", "board"] <= 2
    assert asked(worker, "/metrics", "application/openmetrics-text")[1].endswith("# EOF\n")

    assert worker.run("halt", "board").returncode == 0
    worker.wait_until(lambda: asked(worker, "/ready")[0] == 503)
    (trouble,) = orjson.loads(asked(worker, "/ready")[1])["troubles"]
    assert trouble.startswith("view board is halted: by ")
    status, body = asked(worker, "/health")
    assert status == 200
    assert orjson.loads(body)["alive"] is True
    worker.send((b"d", one))
    worker.wait_until(lambda: figures(worker)["sequitur_lag_records", source, "board"] > 0)
    assert figures(worker)["sequitur_view_halted", "board"] == 2
    assert worker.end(signal.SIGTERM) == 0
