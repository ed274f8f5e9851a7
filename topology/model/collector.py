"""Python's garbage collector in processes that work in large batches."""

import gc
from collections.abc import Hashable

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


class KnownObjects:
    """Objects that are known to be in use, which the collector does not have to find out.

    It looks when many more objects were made than were given up. Where many wait for long, that is
    so without any of them being garbage, and each look takes a microsecond for each of them.
    Thresholds that somebody else has set since `collect_seldom` stay as they are.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._thresholds = COLLECTOR

    def note(self, of: Hashable, objects: int) -> None:
        """So many are in use for `of`; the collector looks when as many more have been made."""
        self._known[of] = objects
        if gc.get_threshold()[:2] == self._thresholds[:2]:  # the third one not all Pythons keep
            self._thresholds = COLLECTOR[0] + sum(self._known.values()), *COLLECTOR[1:]
            gc.set_threshold(*self._thresholds)
