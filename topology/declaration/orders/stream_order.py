"""What every order says of itself; whatever differs by order is asked here."""

from collections.abc import Callable
from typing import Any, ClassVar

from topology.inspectors.fields import Field
from topology.inspectors.inspector import (
    Compiles,
    Found,
    Inspect,
    InspectorFunction,
    compile_inspector,
)
from topology.model.errors import Malformed
from topology.model.event import Damaged, Event, Message
from topology.sequencer.ordering import LOWEST, Ordering

Previous = Callable[[Event], Any]
"""A function of an event to the sequence of its predecessor, None if it has none."""

Link = Callable[[Event], int | None]
"""An event → its predecessor's sequence, None if it has none; raises Malformed."""


class StreamOrder:
    """How sequences order the events of a stream. Each order is a frozen dataclass derived from it.

    Attributes:
        start: the lowest sequence.
        step: the distance of neighbouring sequences.
    """

    __slots__ = ()

    start: int = LOWEST
    step: int = 1
    counts: ClassVar[bool] = False
    """Whether every number has its event, so that it is known what is missing."""
    settles: ClassVar[bool] = False
    """Whether an event waits `settle` seconds, and for no other event: then there are no gaps."""
    settle: float = 0.0
    links: ClassVar[bool] = False
    """Whether an event names its predecessor, so that it is known of one that it is missing."""

    def ordering(self, **policies: Any) -> Ordering:
        """The order in the sequencer's terms. policies: fields of `Ordering`."""
        raise NotImplementedError

    def follows(self, event: Event, last: int | None) -> bool:
        """Whether nothing is missing between `last`, None for a new stream, and an event above it.

        It is the plain rule: the simulator compares with it what the sequencer does.
        """
        raise NotImplementedError

    @property
    def previous(self) -> Field | Previous | None:
        """Where an event names its predecessor, None where none does."""
        return None

    def link(self) -> Link | None:
        """How events that were understood once name their predecessors, None if they do not."""
        return None

    def read_by(self, inspector: Compiles | InspectorFunction) -> "StreamOrder":
        """The same, for the sequences of this inspector. Raises DeclarationError."""
        return self

    def compile(self, inspector: Compiles | InspectorFunction) -> Inspect:
        """A source's inspector as one function; what was damaged on its way is malformed.

        Raises DeclarationError if the inspector's sequences cannot be of this order.
        """
        return of_whole(compile_inspector(inspector))


def of_whole(inspect: Inspect) -> Inspect:
    """An inspector that is given no message of which a part could not be read."""

    def whole(message: Message) -> Found | None:
        if message.__class__ is Damaged:
            raise Malformed(message.reason)
        return inspect(message)

    whole.__wrapped__ = inspect  # type: ignore[attr-defined]
    return whole
