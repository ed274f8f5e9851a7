"""Python's garbage collector in processes that work in large batches."""

import gc

COLLECTOR = 200_000, 20, 100
"""Its thresholds."""


def collect_seldom() -> None:
    """Let the collector look seldom, and never at what is there by now.

    A batch makes tens of thousands of objects that live until it is committed and are in no cycle.
    With the default thresholds the collector looks at each of them again and again, for up to a
    third of the time.
    """
    gc.freeze()
    gc.set_threshold(*COLLECTOR)
