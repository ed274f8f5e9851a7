"""An order of the user's own, which says what follows what."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from topology.declaration.orders.stream_order import StreamOrder
from topology.model.event import Event
from topology.sequencer.own_order import OwnOrdering


@runtime_checkable
class Order(Protocol):
    """Decides what follows what: a class of yours, given as `source(…, sequence=…)`.

    Sequences must grow along the order: progress is one number per view and stream, by which a view
    recognises a copy.
    """

    def follows(self, event: Event, last: int | None) -> bool:
        """Say whether an event is the next of its stream; the view then handles it.

        The engine asks for the lowest event that waits, as often as it likes. The answer may depend
        on the arguments only: no clock, no I/O, no memory. If the method raises, the answer is no,
        and the event waits as behind a gap. An event whose sequence is one above `last` always
        follows: nothing can come between.

        Args:
            event: the lowest event of its stream that is not handled. A message that was stored and
                that the inspector no longer understands has neither kind nor content.
            last: the sequence of the event that was handled last, None if the stream has yet to
                begin.

        Returns:
            Whether nothing is missing between the two.
        """


@dataclass(frozen=True, slots=True)
class OwnOrder(StreamOrder):
    """The user's own order."""

    order: Order

    def ordering(self, **policies: Any) -> OwnOrdering:
        return OwnOrdering(follows=self.follows, **policies)

    def follows(self, event: Event, last: int | None) -> bool:
        """What the order says; it is asked for each event, and a mistake in it stops no view."""
        try:
            return bool(self.order.follows(event, last))
        except Exception:
            return False
