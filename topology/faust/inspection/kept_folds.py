"""Folds that are kept from one look to the next, for whoever looks again and again."""

import time
from typing import Any
from weakref import WeakKeyDictionary

from aiokafka import TopicPartition

from topology.diagnostics.explain import Fold, of_counts, of_waiting
from topology.diagnostics.explain.fold import Wanted

LASTS = 600.0
"""Seconds after which a fold is made anew: compaction forgets deletions, after a day by default."""

STREAMS, BYTES = 64, 1 << 20
"""Folds of single streams that are kept, and bytes of such a one's rows at most."""


class KeptFolds:
    """Changelogs as they were brought down to rows at the last look.

    Only what is asked again and again is kept: what waits, the counts, and what there is of the
    streams that were looked at last, where that is little.
    """

    def __init__(self) -> None:
        self._folds: dict[tuple[TopicPartition, Wanted], tuple[Fold, int, float]] = {}

    def begin(
        self, changelog: TopicPartition, wanted: Wanted, first: int, end: int
    ) -> tuple[Fold, int]:
        """A fold, and the offset from which on it lacks the rest of the changelog.

        It is taken out: a look that is cut off must not leave half of one behind.
        """
        fold, upto, when = self._folds.pop((changelog, wanted), (Fold(wanted), first, 0.0))
        if not first <= upto <= end or time.monotonic() - when > LASTS:
            return Fold(wanted), first
        return fold, upto

    def keep(self, changelog: TopicPartition, wanted: Wanted, fold: Fold, end: int) -> None:
        """Keep a fold that is made of the changelog up to its end."""
        whole = wanted in (of_waiting, of_counts)
        if not whole and sum(map(len, fold.rows.values())) > BYTES:
            return
        self._folds[changelog, wanted] = fold, end, time.monotonic()
        others = [key for key in self._folds if key[1] not in (of_waiting, of_counts)]
        if len(others) > STREAMS:
            del self._folds[others[0]]  # what was kept longest ago


_kept: WeakKeyDictionary[Any, KeptFolds] = WeakKeyDictionary()


def keep_folds(app: Any) -> None:
    """Have all looks at an app from now on go on where the last one ended."""
    _kept.setdefault(app, KeptFolds())


def folds_of(app: Any) -> KeptFolds:
    """The app's, or some that nobody keeps."""
    return _kept.get(app) or KeptFolds()
