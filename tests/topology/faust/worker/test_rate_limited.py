"""The same line of a Kafka client is logged once in a while."""

import io
import logging

import pytest
from mode.utils.logging import ExtensionFormatter

from topology import Topology
from topology.faust import compile
from topology.faust.worker import rate_limited as rate_limited


def test_a_line_that_comes_again_and_again_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("topology.faust.worker.rate_limited.time.monotonic", lambda: now)
    gate = rate_limited.RateLimitFilter()

    def said(text: str) -> str | None:
        record = logging.LogRecord("aiokafka", logging.ERROR, "", 0, "%s", (text,), None)
        return record.getMessage() if gate.filter(record) else None

    assert [said("gone"), said("gone"), said("other"), said("gone")] == [
        "gone",
        None,
        "other",
        None,
    ]
    now = rate_limited.SECONDS + 1
    assert said("gone") == "gone (and 2 times more)"
    assert said("gone") is None


def test_a_line_with_a_count_can_be_formatted_by_the_workers_own_formatter() -> None:
    """It makes a tuple of what arguments there are, even of None."""
    gate = rate_limited.RateLimitFilter()
    gate._said["gone"] = (-rate_limited.SECONDS, 3)
    record = logging.LogRecord("aiokafka", logging.ERROR, "", 0, "%s", ("gone",), None)
    assert gate.filter(record)
    assert "gone (and 3 times more)" in ExtensionFormatter(stream=io.StringIO()).format(record)


def test_the_filter_is_put_on_once() -> None:
    rate_limited.install_log_filters()
    rate_limited.install_log_filters()
    for name in rate_limited.LOGGERS:
        found = logging.getLogger(name).filters
        for kind in (rate_limited.RateLimitFilter, rate_limited.NotReadyFilter):
            assert sum(isinstance(each, kind) for each in found) == 1


def test_a_healthy_broker_gives_no_warnings_and_one_without_replicas_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("topology.faust.worker.rate_limited.time.monotonic", lambda: now)
    gate = rate_limited.NotReadyFilter()

    def said(text: str = "retrying: NotEnoughReplicasError") -> bool:
        record = logging.LogRecord("aiokafka", logging.WARNING, "", 0, "%s", (text,), None)
        return gate.filter(record)

    for _ in range(1000):  # three at each transaction, some of which come soon after another
        assert not any(said() for _ in range(3))
        now += 0.2
    for _ in range(1000):
        said()
        now += 0.01
    assert said()
    assert said("something else")


def test_no_codes_for_a_terminal_go_into_a_log_file(monkeypatch: pytest.MonkeyPatch) -> None:
    app = compile(Topology("wheel"))
    assert isinstance(app.Worker(stdout=io.StringIO()), rate_limited.Worker)
    assert app.Worker(stdout=io.StringIO()).spinner is None

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert app.Worker(stdout=Terminal()).spinner is not None
