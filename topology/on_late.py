"""What becomes of an event whose sequence was given up before it came."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LateTopic:
    """It goes to `<topology>.late`, and is counted."""


OnLate = LateTopic


def late_topic() -> LateTopic:
    """Send late events to `<topology>.late`, with view and sequence as headers."""
    return LateTopic()
