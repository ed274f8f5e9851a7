"""The headers of what a replay publishes again, and those that it leaves out."""

from collections.abc import Container, Iterable

from topology.model.origin_headers import ORIGIN

REPLAY, REPLAY_OF, REPLAY_BY = "sequitur-replay", "sequitur-replay-of", "sequitur-replay-by"
"""Headers: which replay; site/topic/partition/offset of the message; who asked for it."""
REPLAY_TIME = "sequitur-replay-time"
"""The header with the message's own time, in milliseconds since 1970, where it had one.

The record's time is that of the replay: by it, topics delete records that are too old.
"""
RECOVERY_END = "sequitur-recovery-end"
"""The header of a recovery's end mark; its value is the request."""
DAY = "sequitur-day"
"""The header with a day's id, of what ends a day; without headers, the content `{"…": "id"}`."""
_HOPS = (ORIGIN, "sequitur-sites", DAY)
_TRACES = ("traceparent", "tracestate", "baggage", "b3")
_OWN = (REPLAY, REPLAY_OF, REPLAY_BY, REPLAY_TIME, RECOVERY_END)
_LEFT_OUT = frozenset((*_HOPS, *_TRACES, *_OWN))


def is_replayed(headers: Iterable[tuple[str, bytes]]) -> bool:
    """Whether a message with these headers was published again by a replay."""
    return any(name == REPLAY for name, _ in headers)


def tells_of_replay(headers: Iterable[tuple[str, bytes]], told: Container[str]) -> bool:
    """Whether a record was itself published again, rather than tells of a message that was.

    What tells of a message has the message's own headers, and its own behind them.

    Args:
        headers: of the record.
        told: names of headers that are in none but what tells of a message.
    """
    for name, _ in reversed([*headers]):
        if name == REPLAY or name in told:
            return name == REPLAY
    return False


def again(
    headers: Iterable[tuple[str, bytes]], replay: str, of: str, by: str, time: int
) -> tuple[tuple[str, bytes], ...]:
    """The headers of a message that is published again.

    Args:
        headers: it had. Those of its way here, of traces, and of an earlier replay are left out.
        replay: the id of the replay.
        of: where the message was published first, as site/topic/partition/offset.
        by: who asked for it.
        time: the message's own, in milliseconds since 1970; 0: it is not known.
    """
    kept = (each for each in headers if not _is_left_out(each[0].lower()))
    made = [(REPLAY, replay), (REPLAY_OF, of), (REPLAY_BY, by)]
    if time:
        made.append((REPLAY_TIME, str(time)))
    return (*kept, *((name, text.encode(errors="replace")) for name, text in made))


def _is_left_out(name: str) -> bool:
    return name in _LEFT_OUT or name.startswith(("x-b3-", "b3-"))
