"""The attempts in hand: which event may begin, under which grant, and what falls with a grant."""

import math
from collections.abc import Iterable, Iterator

from topology.ordered_commit.deadlines import Deadlines
from topology.ordered_commit.lanes import StreamQueue
from topology.ordered_commit.rules import CommitRules
from topology.ordered_commit.startable import Startable
from topology.ordered_commit.values import (
    FINISHED,
    RUNNING,
    WAITING,
    Grant,
    OpenEvent,
)


class Attempts:
    """Grants that are open, and the order within each stream.

    running: by number. ending: withdrawn ones whose attempt has not ended, by number. staged: bytes
    of what is finished. full: whether only the oldest open event may begin.
    """

    def __init__(
        self,
        rules: CommitRules,
        deadlines: Deadlines,
        numbers: Iterator[int],
        still_running: Iterable[Grant],
    ) -> None:
        self.running: dict[int, Grant] = {}
        self.ending: dict[int, Grant] = {}
        self.staged = 0
        self.startable = Startable(rules.start)
        self._rules = rules
        self._deadlines = deadlines
        self._numbers = numbers
        self._sequence = rules.within_stream == "sequence"
        self._queues: dict[str, StreamQueue] = {}
        self._busy: dict[str | int, int] = {}
        """How many withdrawn attempts of a stream, or of an event without one, have not ended."""
        for grant in still_running:
            self._let_end(grant)

    def admit(self, event: OpenEvent) -> None:
        """An event has arrived."""
        if self._sequence and event.stream is not None:
            queue = self._queues.get(event.stream)
            if queue is None:
                queue = self._queues[event.stream] = StreamQueue()
            event.queue = queue
            queue.waiting.append(event)
            if queue.running is not None or len(queue.waiting) > 1:
                return
        self.startable.push(event)

    def begin(self, oldest_first: bool, only: OpenEvent | None, now: float) -> Grant | None:
        """Grant the event whose turn to begin it is, or a batch from it on.

        oldest_first: whether the oldest is begun, whatever the rules say. only: if given, no other
        event may begin.
        """
        while (event := self.startable.pop(oldest_first or only is not None)) is not None:
            if only is not None and event is not only and event.state == WAITING:
                self.startable.push(event)
                return None
            if self._may_begin(event, None):
                break
        else:
            return None
        settle = event.rollbacks >= self._rules.rollbacks
        grant = Grant(next(self._numbers), (), now, settle)
        chosen = [event]
        self._take(event, grant)
        if self._rules.batch > 1 and not _alone(event) and not (event.lane and event.lane.closed):
            self._extend(chosen, grant)
        grant.events = tuple(chosen)
        self.running[grant.number] = grant
        if event.lane is not None and event.lane.blocker is event:
            grant.hurried = True
        if self._rules.time_limit is not None and not settle:
            self._deadlines.set(grant, now + self._rules.limit(len(chosen)))
        return grant

    def _may_begin(self, event: OpenEvent, grant: Grant | None) -> bool:
        """Whether the event may begin now, under a grant that is being made, if one is given.

        Whatever changes the answer offers the event again.
        """
        if event.state != WAITING or event.deadline != math.inf or event.held_by is not None:
            return False
        queue = event.queue
        if queue is not None and (
            queue.waiting[0] is not event
            or (queue.running is not None and queue.running is not grant)
            or (queue.staged and not self._rules.upon_staged)
        ):
            return False
        if self._busy and self._name(event) in self._busy:
            return False
        lane = event.lane
        if lane is not None and lane.closed and lane.blocker is not event:
            lane.frozen.append(event)
            return False
        return True

    def _take(self, event: OpenEvent, grant: Grant) -> None:
        event.state = RUNNING
        event.grant = grant
        if event.queue is not None:
            event.queue.waiting.popleft()
            event.queue.running = grant

    def _extend(self, chosen: list[OpenEvent], grant: Grant) -> None:
        """Fill a batch: with neighbours in the order of arrival, or else as events may begin."""
        first, passed = chosen[0], list[OpenEvent]()
        of_stream = self._rules.batch_of == "stream"
        if of_stream and first.stream is None:
            return
        event: OpenEvent | None = first
        while len(chosen) < self._rules.batch and event is not None:
            if self._rules.order == "arrival":
                event = event.newer
            elif of_stream:
                event = next(iter(first.queue.waiting), None)
            else:
                if event.queue is not None and event.queue.waiting and event.grant is grant:
                    self.startable.push(event.queue.waiting[0])
                event = self.startable.pop(False)
            if event is None:
                break
            fits = not _alone(event) and not (of_stream and event.stream != first.stream)
            if fits and self._may_begin(event, grant):
                chosen.append(event)
                self._take(event, grant)
            elif self._rules.order == "arrival" or of_stream:
                break
            elif not fits:
                passed.append(event)
        for event in passed:
            self.startable.push(event)

    def close(self, grant: Grant) -> bool:
        """An attempt has ended by itself; False if its grant is old."""
        if self.running.pop(grant.number, None) is None:
            return False
        self._deadlines.clear(grant)
        return True

    def finish(self, grant: Grant, size: int) -> None:
        """A closed grant has staged its effects; its streams go on."""
        grant.size = size
        self.staged += size
        for event in grant.events:
            event.state = FINISHED
            if event.lane is not None:
                event.lane.finished += 1
            queue = event.queue
            if queue is not None:
                queue.staged.append(event)
                queue.running = None
        for event in grant.events:
            self.offer_next(event)

    def withdraw(self, roots: Iterable[Grant]) -> list[Grant]:
        """Take grants back, with all that ran on what they staged; newest first.

        Of those that are neither closed nor finished, the attempts have yet to end.
        """
        fallen: dict[int, Grant] = {}
        found = list(roots)
        while found:
            grant = found.pop()
            if grant.number in fallen:
                continue
            fallen[grant.number] = grant
            for event in grant.events:
                found.extend(_later_of_stream(event))
        events = [event for grant in fallen.values() for event in grant.events]
        events.sort(key=lambda event: event.offset, reverse=True)
        for event in events:
            queue = event.queue
            if event.state == FINISHED:
                if queue is not None:
                    queue.staged.pop()
                if event.lane is not None and not event.ahead:
                    event.lane.finished -= 1
            elif queue is not None:
                queue.running = None
            event.ahead = False
            event.state = WAITING
            event.grant = None
            if queue is not None:
                queue.waiting.appendleft(event)
        for grant in fallen.values():
            if self.running.pop(grant.number, None) is None:
                self.staged -= grant.size
            else:
                self._deadlines.clear(grant)
                self._let_end(grant)
        for event in events:
            self.offer_next(event)
        return sorted(fallen.values(), key=lambda grant: grant.events[-1].offset, reverse=True)

    def offer_next(self, event: OpenEvent) -> None:
        """The event, or the one of its stream that comes next, may perhaps begin."""
        queue = event.queue
        if queue is None:
            if event.state == WAITING:
                self.startable.push(event)
        elif queue.waiting and queue.running is None:
            self.startable.push(queue.waiting[0])

    def ended(self, grant: Grant) -> tuple[str | int, ...]:
        """A withdrawn attempt has ended. Returns the streams, or offsets, that it had occupied."""
        if self.ending.pop(grant.number, None) is None:
            return ()
        free = []
        for event in grant.events:
            name = self._name(event)
            self._busy[name] -= 1
            if not self._busy[name]:
                del self._busy[name]
                free.append(name)
        return tuple(free)

    def offer_named(self, name: str | int, found: OpenEvent | None) -> None:
        """A stream, or the event at an offset, is no longer occupied."""
        queue = self._queues.get(name) if isinstance(name, str) else None
        if queue is not None and queue.waiting:
            self.startable.push(queue.waiting[0])
        elif found is not None:
            self.startable.push(found)

    def revoke(self) -> None:
        """All attempts that run have yet to end."""
        for grant in self.running.values():
            self._let_end(grant)
        self.running.clear()

    def done(self, event: OpenEvent) -> None:
        """The event is durable."""
        queue = event.queue
        if queue is not None:
            queue.staged.popleft()
            if not self._rules.upon_staged:
                self.offer_next(event)
            if not queue.staged and not queue.waiting and queue.running is None:
                assert event.stream is not None
                del self._queues[event.stream]

    def _let_end(self, grant: Grant) -> None:
        if grant.settle:
            # Its attempt has ended: it was the error policy's, which may have halted the view.
            return
        self.ending[grant.number] = grant
        for event in grant.events:
            name = self._name(event)
            self._busy[name] = self._busy.get(name, 0) + 1

    def _name(self, event: OpenEvent) -> str | int:
        return event.offset if event.stream is None or not self._sequence else event.stream


def _alone(event: OpenEvent) -> bool:
    """Whether the event is not put into a batch: it failed, was rolled back, or split off."""
    return event.alone or event.failures > 0 or event.rollbacks > 0


def _later_of_stream(event: OpenEvent) -> Iterator[Grant]:
    """The grants of the later events of its stream, which ran on what it staged."""
    queue = event.queue
    if queue is None:
        return
    for later in reversed(queue.staged):
        if later.offset <= event.offset:
            break
        if later.grant is not None:
            yield later.grant
    if queue.running is not None and queue.running is not event.grant:
        yield queue.running
