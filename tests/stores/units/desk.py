"""A queue of units at hand: messages arrive one by one, and changes are durable at once."""

from typing import Any

from stores.units.queue import (
    EVERY,
    Delivery,
    Filter,
    QueueSettings,
    UnitChanges,
    UnitMessage,
    UnitQueue,
)


class Desk:
    """A queue with a clock that stands until it is moved."""

    def __init__(self, **settings: Any) -> None:
        self.queue = UnitQueue(QueueSettings(**settings))
        self.now = 1_000.0
        self.changes: list[UnitChanges] = []

    def send(self, *units: str | None, **fields: Any) -> list[int]:
        """Messages of these units arrive in this order; returns their offsets."""
        offsets = []
        for unit in units:
            offsets.append(self.queue.read_to)
            message = UnitMessage(self.queue.read_to, unit, size=10, **fields)
            self.queue.arrive(message, self.now)
        return offsets

    def open(self, *sessions: str, filter: Filter = EVERY, prefetch: int = 1) -> None:
        for session in sessions:
            self.queue.open_session(session, filter, prefetch)

    def next(self, session: str) -> list[Delivery]:
        return self.queue.next(session, self.now)

    def offsets(self, session: str) -> list[int]:
        return [each.message.offset for each in self.next(session)]

    def take(self, session: str) -> Delivery:
        (delivery,) = self.next(session)
        return delivery

    def complete(self, session: str, *deliveries: Delivery) -> None:
        self.queue.complete(session, [each.number for each in deliveries], self.now)
        self.commit()

    def roll_back(self, session: str, *deliveries: Delivery, delay: float | None = None) -> None:
        self.queue.roll_back(session, [each.number for each in deliveries], self.now, delay)
        self.commit()

    def commit(self) -> UnitChanges:
        found = self.queue.take_changes()
        self.changes.append(found)
        self.queue.settled(found.number, self.now)
        return found

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.queue.expire(self.now)

    def fail(self, session: str, times: int) -> None:
        """The session takes its next message, and fails, so many times."""
        for _ in range(times):
            self.roll_back(session, self.take(session))

    def gone(self) -> list[tuple[int, str]]:
        """(offset, outcome) of what was sent elsewhere."""
        self.commit()
        return [(d.message.offset, str(d.outcome)) for c in self.changes for d in c.departures]
