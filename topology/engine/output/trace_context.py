"""The trace that a message is part of: its context, in headers, goes to what comes of it."""

from collections.abc import Sequence

TRACEPARENT = "traceparent"
_NAMES = frozenset((TRACEPARENT, "tracestate"))
LONGEST = 1_000
"""Bytes of such a header; a longer one is none."""


def trace_context(headers: Sequence[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """The headers of a message's trace context, the last of each name; none if it has none.

    Args:
        headers: of the message; a value may be missing.
    """
    for name, _ in headers:  # nearly all messages have none, and pay for this alone
        if name == TRACEPARENT:
            break
    else:
        return []
    found = {
        name: value for name, value in headers if name in _NAMES and value and len(value) <= LONGEST
    }
    return list(found.items()) if TRACEPARENT in found else []
