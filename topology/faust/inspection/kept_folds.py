"""Folds that are kept from one look to the next, for whoever looks again and again."""

import asyncio
import time
from collections import defaultdict
from typing import Any
from weakref import WeakKeyDictionary

from aiokafka import TopicPartition

from topology.diagnostics.explain import Fold, WaitingStreams, of_counts, of_sequences, of_waiting
from topology.diagnostics.explain.fold import Wanted
from topology.diagnostics.side_topics import SideTally
from topology.faust.inspection.stream_index import StreamIndex

LASTS = 6 * 3600.0
"""Seconds after which a fold is made anew: compaction forgets deletions, after a day by default."""

STREAMS, BYTES = 64, 1 << 20
"""Folds of single streams that are kept, and bytes of such a one's rows at most."""


Folded = Fold | WaitingStreams
_WHOLE = (of_waiting, of_sequences, of_counts)


def fold_of(wanted: Wanted) -> Folded:
    """A fold that nothing is in yet."""
    return WaitingStreams() if wanted is of_sequences else Fold(wanted)


class KeptFolds:
    """Changelogs as they were brought down to rows at the last look.

    Only what is asked again and again is kept: what waits, the counts, and what there is of the
    streams that were looked at last, where that is little.
    """

    def __init__(self) -> None:
        self._folds: dict[tuple[TopicPartition, Wanted], tuple[Folded, int, float]] = {}
        self.indexes: dict[TopicPartition, StreamIndex] = {}
        """Of the changelogs of which it is kept what waits, up to where that is."""
        self.reading: defaultdict[TopicPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Held while a fold is read on: others wait for it, and do not begin anew."""
        self.sides: dict[str, SideTally] = {}
        """Side topic → what was counted and grouped of it."""

    def serving(self, wanted: Wanted) -> Wanted:
        """What answers a question: the counts are kept with what waits."""
        return of_sequences if wanted is of_counts else wanted

    def begin(
        self, changelog: TopicPartition, wanted: Wanted, first: int, end: int
    ) -> tuple["Folded", int]:
        """A fold, and the offset from which on it lacks the rest of the changelog.

        It is taken out: a look that is cut off must not leave half of one behind.
        """
        fold, upto, when = self._folds.pop((changelog, wanted), (None, first, 0.0))
        if fold is None or not first <= upto <= end or time.monotonic() - when > LASTS:
            if wanted is of_sequences:
                self.indexes[changelog] = StreamIndex()
            return fold_of(wanted), first
        return fold, upto

    def keep(self, changelog: TopicPartition, wanted: Wanted, fold: "Folded", end: int) -> None:
        """Keep a fold that is made of the changelog up to its end."""
        whole = wanted in _WHOLE
        if not whole and sum(map(len, fold.rows.values())) > BYTES:
            return
        self._folds[changelog, wanted] = fold, end, time.monotonic()
        others = [key for key in self._folds if key[1] not in _WHOLE]
        if len(others) > STREAMS:
            del self._folds[others[0]]  # what was kept longest ago


_kept: WeakKeyDictionary[Any, KeptFolds] = WeakKeyDictionary()


def keep_folds(app: Any) -> None:
    """Have all looks at an app from now on go on where the last one ended."""
    _kept.setdefault(app, KeptFolds())


def folds_of(app: Any) -> KeptFolds | None:
    """The app's, if somebody keeps them."""
    return _kept.get(app)
