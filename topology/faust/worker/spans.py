"""Spans of events whose messages are part of a trace, where OpenTelemetry is installed and set up.

An event's span is a child of its message's, from its arrival in the view to its commit: what it
waited for its predecessors is seen. A commit's span links those of its events.
"""

from typing import Any

from mode import get_logger

from topology.engine.commit_unit import CommitUnit

trace: Any
propagator: Any
try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    trace = propagator = None
else:
    propagator = TraceContextTextMapPropagator()

logger = get_logger(__name__)

LINKS = 128
"""Of a commit's span, as many as OpenTelemetry keeps by default."""


def tell_spans(unit: CommitUnit, began: int, ended: int) -> None:
    """Tell what a commit unit made durable of traces; whatever fails there harms no event.

    Args:
        unit: it is durable.
        began: when its commit began, in ms since 1970.
        ended: when it was done.
    """
    if not unit.traced or trace is None:
        return
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return  # nobody has said where spans go
    try:
        _tell(unit, began, ended)
    except Exception as error:
        logger.warning("spans cannot be told: %r", error)


def _tell(unit: CommitUnit, began: int, ended: int) -> None:
    tracer, links = trace.get_tracer("sequitur"), list[Any]()
    for view, event, headers in unit.traced:
        parent = propagator.extract({name: text.decode("latin-1") for name, text in headers})
        message = event.message
        span = tracer.start_span(
            f"process {view}",
            parent,
            trace.SpanKind.CONSUMER,
            {
                "messaging.system": "kafka",
                "messaging.operation.type": "process",
                "messaging.destination.name": message.topic,
                "messaging.kafka.offset": message.offset,
                "sequitur.view": view,
                "sequitur.stream": event.stream,
                "sequitur.sequence": str(event.sequence),
            },
            start_time=min(event.arrived or began, ended) * 1_000_000,
        )
        span.end(ended * 1_000_000)
        if len(links) < LINKS:
            links.append(trace.Link(span.get_span_context()))
    commit = tracer.start_span(
        "sequitur commit",
        None,
        trace.SpanKind.INTERNAL,
        {
            "messaging.system": "kafka",
            "messaging.destination.name": unit.topic,
            "messaging.batch.message_count": len(unit.traced),
        },
        links,
        began * 1_000_000,
    )
    commit.end(ended * 1_000_000)
