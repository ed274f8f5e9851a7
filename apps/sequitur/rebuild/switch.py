"""Lets a shadow follow the live outputs, and puts it in the place of the live tables."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from sequitur.rebuild.plan import Plan
from sequitur.rebuild.progress import Progress
from stores.sinks import NotYet, Position, Sink, StoreError
from topology.faust.kafka.follower import Follower
from topology.model.counted import counted

PATIENCE = 300.0
"""Seconds to try to be as far as the live tables at one moment."""
BEHIND = 2_000
"""Offsets behind which a shadow is as good as caught up."""

IN_VAIN = 4
"""Steps that bring a shadow no nearer, before it is taken to be as near as it comes."""

log = logging.getLogger("rebuild")


class Follow:
    """The shadow on its way behind the output topics. check: what it raises ends it."""

    def __init__(
        self, app: Any, plan: Plan, live: Sink, shadow: Sink, check: Callable[[], None]
    ) -> None:
        self.plan, self.live, self.shadow, self._check = plan, live, shadow, check
        self.records = 0
        start = _offsets(plan)
        for position in shadow.progress():
            at = position.topic, position.partition
            if at in start:
                start[at] = max(start[at], position.next_offset)
        self._follower = followed_from(app, start)

    def __enter__(self) -> "Follow":
        return self

    def __exit__(self, *error: object) -> None:
        self._follower.close()

    def catch_up(self) -> None:
        """Follow until little is left, or no less for a while: more comes in the time of a step.

        What is left at last comes before the switch.
        """
        behind = first = self._follower.behind()
        progress = Progress("following the output topics")
        in_vain = 0
        while behind > BEHIND and in_vain < IN_VAIN:
            self.step()
            left = self._follower.behind()
            in_vain = 0 if left < behind else in_vain + 1
            behind = min(behind, left)
            progress.tell(
                max(0, first - behind), max(1, first), f"{counted(behind, 'offset')} behind"
            )
        self.drain()

    def step(self) -> int:
        """Apply what there is. Returns how many records that were."""
        self._check()
        records = self._follower.take()
        if records:
            self.shadow.apply(records)
            self.records += len(records)
        return len(records)

    def drain(self) -> None:
        """Apply all that there is now, or will be while it goes on, for some time."""
        until = time.monotonic() + 10
        while self.step() and time.monotonic() < until:
            pass

    def switch(self) -> None:
        """Put the shadow in the live tables' place, at a moment at which it is as far as they are.

        Raises NotYet if there is no such moment for long.
        """
        topics = sorted(self.plan.snapshot.outputs)
        until = time.monotonic() + PATIENCE
        while True:
            self.step()
            try:
                self._check()
                self.live.switch(self.plan.shadow, topics)
                return
            except NotYet:
                if time.monotonic() > until:
                    raise


def followed_from(app: Any, start: Mapping[tuple[str, int], int]) -> Follower:
    """Follow output topics from these offsets on: partition → offset. Raises StoreError."""
    follower = Follower(app, start)
    for topic, number in follower.lost():
        follower.close()
        raise StoreError(
            f"topic {topic!r} partition {number} has lost outputs by retention that were still "
            "to be followed; begin anew with --fresh"
        )
    return follower


def begin_following(shadow: Sink, plan: Plan) -> None:
    """From now on a shadow that was filled with what was rebuilt goes by the output topics."""
    shadow.seek(
        Position(topic, number, offset) for (topic, number), offset in _offsets(plan).items()
    )


def _offsets(plan: Plan) -> dict[tuple[str, int], int]:
    return {
        (topic, number): offset
        for topic, partitions in plan.snapshot.outputs.items()
        for number, offset in partitions.items()
    }
