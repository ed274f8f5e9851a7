"""Spans of a commit, by OpenTelemetry's own interface."""

from typing import Any

import pytest
from opentelemetry import trace

from topology.engine.commit_unit import CommitUnit
from topology.faust.worker import spans
from topology.faust.worker.spans import tell_spans
from topology.model.event import Event, Record

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Told(trace.NonRecordingSpan):
    """A span with what it was started with."""

    def __init__(self, name: str, parent: Any, links: Any, began: int | None) -> None:
        super().__init__(parent)
        self.name, self.parent, self.links, self.began = name, parent, links, began
        self.ended: int | None = None

    def end(self, end_time: int | None = None) -> None:
        self.ended = end_time


class Provider(trace.TracerProvider, trace.NoOpTracer):
    """Provides itself, and keeps the spans."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    def get_tracer(self, *_: Any, **__: Any) -> Any:
        return self

    def start_span(  # type: ignore[override]
        self, name: str, context: Any, kind: Any, attributes: Any, links: Any = (),
        start_time: int | None = None,
    ) -> Any:  # fmt: skip
        parent = trace.get_current_span(context).get_span_context()
        self.told.append(Told(name, parent, links, start_time))
        return self.told[-1]


def unit() -> CommitUnit:
    made = CommitUnit("orders", 0)
    event: Event = Event("a", 7, None, {}, Record("orders", 0, 3, b"a", b"{}"), arrived=5_000)
    made.traced.append(("board", event, [("traceparent", f"00-{TRACE}-{SPAN}-01".encode())]))
    return made


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    made = Provider()
    monkeypatch.setattr(spans.trace, "get_tracer_provider", lambda: made)
    monkeypatch.setattr(spans.trace, "get_tracer", made.get_tracer)
    return made


def test_an_event_s_span_is_a_child_from_arrival_to_commit_and_the_commit_links_it(
    provider: Provider,
) -> None:
    tell_spans(unit(), 8_000, 9_000)
    event, commit = provider.told
    assert (event.name, event.began, event.ended) == (
        "process board", 5_000_000_000, 9_000_000_000,
    )  # fmt: skip
    assert f"{event.parent.trace_id:032x}" == TRACE
    assert f"{event.parent.span_id:016x}" == SPAN
    assert (commit.name, commit.began, commit.ended) == (
        "sequitur commit", 8_000_000_000, 9_000_000_000,
    )  # fmt: skip
    assert not commit.parent.is_valid
    assert [link.context for link in commit.links] == [event.get_span_context()]


def test_what_nobody_set_up_and_what_fails_harms_nothing(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider, "start_span", lambda *_: 1 / 0)
    tell_spans(unit(), 8_000, 9_000)
    monkeypatch.setattr(spans, "trace", None)
    tell_spans(unit(), 8_000, 9_000)
    assert provider.told == []
