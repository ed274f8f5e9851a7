"""What becomes of an event whose sequence was given up before it came."""

from dataclasses import dataclass

from topology.model.errors import DeclarationError

MOST = 1_000_000
"""Events of one stream that a rebuild may be allowed to hold in memory."""


@dataclass(frozen=True, slots=True)
class LateTopic:
    """It goes to `<topology>.late`, and is counted."""


@dataclass(frozen=True, slots=True)
class RebuildStream:
    """Its stream is rebuilt in that view, with the event in its place.

    limit: events of a stream, at most, that are read again; those of a longer one are late.
    """

    limit: int = 10_000


OnLate = LateTopic | RebuildStream


def too_long(limit: int) -> str:
    """Why a stream of more events is not rebuilt."""
    return f"it has more than the {limit} events that may be read again"


def late_topic() -> LateTopic:
    """Send late events to `<topology>.late`, with view, sequence and origin as headers."""
    return LateTopic()


def rebuild_stream(limit: int = 10_000) -> RebuildStream:
    """Read the stream's history again, and handle all of it in sequence from a fresh state.

    Its row changes go out again, with an epoch that is one higher. limit: a stream of more events,
    or one whose history is no longer there, is not rebuilt: the late event goes to
    `<topology>.late`, with the reason.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise DeclarationError(
            f"rebuild_stream(limit={limit!r}): limit must be a number of events from 1 to {MOST}: "
            "all of a stream's are held in memory while it is rebuilt"
        )
    return RebuildStream(limit)
