"""How many examples a property is tried with: all, or with `scripts/test --fast` a third."""

import os

SHARE = 1 / 3 if os.environ.get("SEQUITUR_FAST") else 1.0


def some(number: int) -> int:
    """So many of `number` examples."""
    return max(5, round(number * SHARE))
