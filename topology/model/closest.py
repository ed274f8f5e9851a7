"""What somebody meant who misspelt a name."""

from collections.abc import Iterable
from difflib import get_close_matches


def closest(name: str, known: Iterable[str]) -> str:
    """` (did you mean 'a' or 'b'?)` with the known names that come close; empty if none does."""
    found = get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(map(repr, found))}?)" if found else ""
