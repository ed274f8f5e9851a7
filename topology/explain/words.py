"""Numbers and ranges in words."""

from topology.explain.missing import Missing


def spelled(gap: Missing, one: str = "is", more: str = "are") -> str:
    """`sequence 4 is` or `sequences 4 to 6 (3) are`."""
    if gap.count is None:
        return f"something between {gap.first - 1} and {gap.last + 1} {one}"
    if gap.count == 1:
        return f"sequence {gap.first} {one}"
    return f"sequences {gap.first} to {gap.last} ({gap.count}) {more}"


def messages(number: int) -> str:
    return f"{number} message" if number == 1 else f"{number} messages"


def events(number: int) -> str:
    return f"{number} event" if number == 1 else f"{number} events"
