"""An order of the user's: the next event is the lowest that waits, once the order says so."""

from topology.model.event import Event
from topology.sequencer.linked import LinkedRun
from topology.sequencer.step import Ordering


class FollowedRun(LinkedRun):
    """As links, but what the predecessor is only the order knows."""

    @staticmethod
    def is_next(ordering: Ordering, event: Event, last: int) -> bool:
        if last == event.sequence - 1:
            # Nothing can come between; and what was in front of it may have been given up.
            return True
        assert ordering.follows is not None
        return ordering.follows(event, None if last == ordering.first else last)

    @staticmethod
    def behind(ordering: Ordering, event: Event) -> int:
        return event.sequence - 1
