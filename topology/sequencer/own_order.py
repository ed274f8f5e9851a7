"""An order of the user's: the next event is the lowest that waits, once the order says so."""

from collections.abc import Callable
from dataclasses import dataclass, field

from topology.model.event import Event
from topology.sequencer.linked import ChainOrdering


@dataclass(frozen=True, slots=True)
class OwnOrdering(ChainOrdering):
    """As links, but what the predecessor is only the order knows.

    follows: whether an event is the next behind a sequence, None where the stream has yet to begin,
    for the first time or again.
    """

    follows: Callable[[Event, int | None], bool] = field(kw_only=True)

    def is_next(self, event: Event, last: int) -> bool:
        if last == event.sequence - 1:
            # Nothing can come between; and what was in front of it may have been given up.
            return True
        return self.follows(event, None if last == self.first else last)
