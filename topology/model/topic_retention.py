"""For how long topics keep their records."""

DAY = 86_400_000
"""Milliseconds."""
SIDE_DAYS = 90.0
"""What the side topics keep unless somebody says otherwise."""
SIDE_VARIABLE = "SEQUITUR_SIDE_RETENTION_DAYS"


def retention(days: float) -> str:
    """retention.ms, -1 for ever."""
    return "-1" if days < 0 else str(max(1, round(days * DAY)))
