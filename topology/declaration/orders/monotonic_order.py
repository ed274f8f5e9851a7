"""Values that grow but do not count, such as times: an event waits until it has settled."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

from topology.declaration.orders.stream_order import StreamOrder
from topology.declaration.seconds import is_seconds
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.sequencer.monotonic import MonotonicOrdering


@dataclass(frozen=True, slots=True)
class Monotonic(StreamOrder):
    """Sequences only grow: an event waits `settle` seconds for lower ones; if they are the offsets
    of its topic (`appended`), no copy is late."""

    settle: float = field()
    appended: bool = field(default=False, repr=False)  # nobody writes it
    settles: ClassVar[bool] = True

    def follows(self, event: Event, last: int | None) -> bool:
        return True

    def ordering(self, **policies: Any) -> MonotonicOrdering:
        return MonotonicOrdering(
            settle=math.ceil(self.settle * 1000), appended=self.appended, **policies
        )


def monotonic(settle: float) -> Monotonic:
    """Order by times, or other values that grow but do not count.

    An event waits from its arrival until it has settled, and is then released with everything
    lower.

    Args:
        settle: seconds that an event waits.

    Raises:
        DeclarationError: `settle` is no such number.
    """
    if not is_seconds(settle):
        raise DeclarationError(
            f"monotonic(settle={settle!r}): settle must be a number of seconds above 0: how much "
            "later than a higher one an event may arrive"
        )
    return Monotonic(float(settle))
