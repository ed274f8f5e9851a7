"""Events in the dead topic, and how they are put back into the view that gave them up.

They come again by the view's redelivery topic, as fresh as on their first day, and say which record
of the dead topic they were: a view takes each of these once, however often it is put back.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from topology.declaration.lanes import escaped, split_lane
from topology.declaration.view import View
from topology.engine.commit_unit import Out
from topology.engine.redelivery.records import (
    AT_WORKERS,
    ATTEMPT,
    DEAD,
    GONE,
    NOT_BEFORE,
    SEQUENCE,
)
from topology.engine.state.lane_names import readings
from topology.model.event import Message
from topology.model.origin_headers import ORIGIN, ORIGIN_KEY, REASON, original


class DeadEvent(NamedTuple):
    """An event that a view gave up. at: its offset in the dead topic. when: it was given up (ms).

    input: the partition that it came from, in the topic that it was made of.
    """

    at: int
    view: str
    stream: str
    sequence: int
    reason: str
    when: int
    input: int
    record: Message


def dead_of(record: Message) -> DeadEvent | None:
    """The event of a record of the dead topic, None if somebody else wrote it."""
    try:
        told = dict(record.headers)
        return DeadEvent(
            record.offset,
            told["view"].decode(),
            (record.key or b"").decode(),
            int(told["sequence"]),
            told[REASON].decode("utf-8", "replace"),
            record.timestamp,
            original(record).partition,
            record,
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class DeadEventFilter:
    """Which of a view's dead events: all, or of one stream, with a reason that has this text in it,
    given up at `before` (ms) or earlier."""

    stream: str | None = None
    reason: str | None = None
    before: int | None = None

    def takes(self, dead: DeadEvent) -> bool:
        """Whether it is one of them, but for its stream."""
        told = self.reason is None or self.reason in dead.reason
        return told and (self.before is None or dead.when <= self.before)

    def streams(self, view: View, there: Iterable[str]) -> set[str]:
        """Which of the streams that are there are meant."""
        known = set(there)
        if self.stream is None or self.stream in known:
            return known if self.stream is None else {self.stream}
        for reading in readings(view, self.stream):
            own = view.split is not None and "|" not in reading
            found = {s for s in known if (escaped(split_lane(s)[0]) if own else s) == reading}
            if found:
                return found
        return set()


@dataclass(slots=True)
class DeadEventSearch:
    """What there is of a view in the dead topic. chosen: those to put back, by stream and sequence.

    others: dead events that were not chosen. before: those that were put back before. passed: those
    of a view with workers that its streams have passed: no worker would get them. gone: those that
    cannot be put back, as nobody has their bodies. foreign: records that are no dead events of any
    view.
    """

    chosen: list[DeadEvent] = field(default_factory=list)
    others: int = 0
    before: int = 0
    passed: int = 0
    gone: int = 0
    foreign: int = 0

    @property
    def streams(self) -> dict[str, list[int]]:
        """Stream → the sequences that are put back."""
        found: dict[str, list[int]] = defaultdict(list)
        for dead in self.chosen:
            found[dead.stream].append(dead.sequence)
        return dict(found)


def find_dead(
    view: View,
    records: Iterable[Message],
    choice: DeadEventFilter,
    done: Collection[int],
    stands: Mapping[str, int] = MappingProxyType({}),
) -> DeadEventSearch:
    """Look through the dead topic.

    Args:
        view: whose events are looked for.
        records: of the dead topic.
        choice: which are meant.
        done: the offsets of those that were put back before.
        stands: stream → its last processed sequence, as far as the view knows it.
    """
    found, mine = DeadEventSearch(), []
    for record in records:
        dead = dead_of(record)
        if dead is None:
            found.foreign += 1
        elif dead.view == view.name:
            mine.append(dead)
    meant = choice.streams(view, (dead.stream for dead in mine))
    for dead in mine:
        if dead.at in done:
            found.before += 1
        elif dead.stream not in meant or not choice.takes(dead):
            found.others += 1
        elif dead.reason == GONE:
            found.gone += 1
        elif view.work is not None and _is_passed(dead, stands):
            found.passed += 1
        else:
            found.chosen.append(dead)
    found.chosen.sort(key=lambda dead: (dead.stream, dead.sequence, dead.at))
    return found


def _is_passed(dead: DeadEvent, stands: Mapping[str, int]) -> bool:
    """Whether the first stage of a view with workers would hand an event on no more."""
    at = stands.get(dead.stream)
    return dead.reason.endswith(AT_WORKERS) or (at is not None and dead.sequence <= at)


def put_back(dead: DeadEvent, now: int) -> Out:
    """The record of the view's redelivery topic that brings a dead event back."""
    headers = list(dead.record.headers)
    tail = [headers.pop()] if headers[-1][0] == ORIGIN_KEY else []
    tail.append(headers.pop())
    assert tail[-1][0] == ORIGIN
    # Behind the message's own headers the dead topic has the view, the sequence and the reason.
    del headers[-3:]
    headers += [
        (DEAD, b"%d" % dead.at),
        (NOT_BEFORE, b"%d" % now),
        (ATTEMPT, b"0"),
        (SEQUENCE, b"%d" % dead.sequence),
    ]
    return dead.record.key, dead.record.value, now, [*headers, *reversed(tail)]


def dead_at(record: Message) -> int | None:
    """The offset in the dead topic, of a redelivery topic's record that was put back."""
    at = next((value for name, value in reversed(record.headers) if name == DEAD), None) or b""
    return int(at) if at.isdigit() else None
