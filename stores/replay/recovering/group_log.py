"""What a group's consumers tell each other: records of a compacted topic, and what they come to.

A recovery is asked for (partitions stop), runs (the server has taken it), and ends where it cannot
go on. What has ended stays so, whatever comes later.
"""

from dataclasses import dataclass
from typing import Any

import orjson

from stores.replay.recovering.switch import Phase

_REMEMBERED = 100
"""Recoveries before the last one whose outcomes are known."""

Place = tuple[str, int]
"""A topic, and a partition of it."""


def partition_key(place: Place) -> bytes:
    """The key of a partition's record."""
    return orjson.dumps(["partition", *place])


def request_key(request: str, step: str) -> bytes:
    """The key of a step of a request: asked, running or ended."""
    return orjson.dumps(["request", request, step])


@dataclass(slots=True)
class Request:
    """A recovery.

    Attributes:
        id: the group's.
        topics: whose partitions take part.
        recovery: the server's id; "": it has not taken it yet.
        server: its URL.
        recovery_topics: topic → the one to read instead.
        positions: topic → partition → the offset at which the primary is left.
        through_router: whether the recovery may have what is on the primary too.
        ended: why it ended early.
    """

    id: str
    topics: tuple[str, ...] = ()
    recovery: str = ""
    server: str = ""
    recovery_topics: dict[str, str] | None = None
    positions: dict[str, dict[int, int]] | None = None
    through_router: bool = False
    ended: str | None = None

    def _fold(self, step: str, said: dict[str, Any]) -> None:
        if step == "asked":
            self.topics = tuple(said["topics"])
        elif step == "ended":
            self.ended = str(said["reason"]) if self.ended is None else self.ended
        elif step == "running":
            self.recovery, self.server = said["recovery"], said["server"]
            self.recovery_topics, self.through_router = said["topics"], said["through_router"]
            self.positions = {
                topic: {int(number): at for number, at in parts.items()}
                for topic, parts in said["positions"].items()
            }


class GroupLog:
    """What the records come to.

    Attributes:
        partitions: place → what its switch has to keep.
        requests: id → request, in the order in which they were asked for.
    """

    def __init__(self) -> None:
        self.partitions: dict[Place, dict[str, Any]] = {}
        self.requests: dict[str, Request] = {}
        self._outcomes: dict[str, str] = {}

    def fold(self, key: bytes | None, value: bytes | None) -> None:
        """Take a record; one that is none of these is passed over."""
        try:
            name, said = orjson.loads(key or b""), orjson.loads(value) if value else None
        except ValueError:
            return
        match name:
            case ["partition", str(topic), int(number)]:
                if said is not None:
                    self.partitions[topic, number] = said
            case ["request", str(id), str(step)]:
                if said is None:
                    self._forget(id)
                else:
                    self.requests.setdefault(id, Request(id))._fold(step, said)

    def _forget(self, id: str) -> None:
        if id in self.requests:
            why = self.outcome(id)
            self._outcomes[id] = "another one has begun" if why is None else why
            del self.requests[id]
        while len(self._outcomes) > _REMEMBERED:
            del self._outcomes[next(iter(self._outcomes))]

    def outcome(self, id: str) -> str | None:
        """How a request came out: "": all of it was read; why it ended early; None: it goes on."""
        if (request := self.requests.get(id)) is None:
            return self._outcomes.get(id, "nothing is known of it any more")
        if request.ended is not None:
            return request.ended or "it was cancelled"
        return "" if self.is_over(request) else None

    def active(self) -> Request | None:
        """The recovery that is under way."""
        open_ = (each for each in self.requests.values() if each.ended is None)
        return next((each for each in open_ if not self.is_over(each)), None)

    def is_over(self, request: Request) -> bool:
        """Whether each of a request's partitions is back on the primary."""
        return request.positions is not None and all(
            self._phase(request, (topic, number)) is Phase.PRIMARY
            for topic, parts in request.positions.items()
            for number in parts
        )

    def stopped_at(self, request: Request, place: Place) -> int | None:
        """Where a partition has stopped for a request; None: it has not."""
        if self._phase(request, place) is not Phase.STOPPED:
            return None
        return int(self.partitions[place]["position"])

    def _phase(self, request: Request, place: Place) -> Phase | None:
        found = self.partitions.get(place)
        if found is None or found["request"] != request.id:
            return None
        return Phase(found["phase"])
