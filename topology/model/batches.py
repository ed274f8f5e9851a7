"""Batches: several events that a handler takes together, and which of them an effect is of."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from topology.model.changes import ITEMS_LIMIT
from topology.model.errors import HandlerError
from topology.model.event import Event


@dataclass(frozen=True, slots=True)
class Batch:
    """How many events a handler takes at once.

    Attributes:
        most: events, from 2 to 10,000; fewer where no more may begin.
        of: `"stream"`: those of one stream; `"any"`: of any streams.
    """

    most: int
    of: Literal["stream", "any"] = "stream"


def by_event(events: Sequence[Event], items: Sequence[Any]) -> list[list[Any]]:
    """What a handler yielded of each event of a batch. Raises HandlerError.

    It yields (event, effect). An effect by itself is of the last event, if all are of one stream.
    """
    if len(items) > ITEMS_LIMIT:
        raise HandlerError(
            f"the handler yielded more than {ITEMS_LIMIT} row changes and messages for a batch of "
            f"{len(events)}; declare smaller ones"
        )
    found: list[list[Any]] = [[] for _ in events]
    places = {id(event): at for at, event in enumerate(events)}
    whole = all(event.stream == events[0].stream for event in events)
    for item in items:
        if isinstance(item, tuple) and len(item) == 2:
            at = places.get(id(item[0]))
            if at is None:
                raise HandlerError(
                    "the handler yielded a pair whose first is no event of the batch; yield "
                    "(event, effect)"
                )
            found[at].append(item[1])
        elif whole:
            found[-1].append(item)
        else:
            raise HandlerError(
                f"the handler yielded a {type(item).__name__} for a batch of several streams; "
                "yield (event, effect), so that it is known which event it is of"
            )
    return found
