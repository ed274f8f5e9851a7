"""What an event comes to for one key: the records between the two views of a fold by key."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from topology.declaration.orders import StreamOrder
from topology.model.changes import check_finite
from topology.model.errors import Malformed
from topology.model.event import Event, Message
from topology.model.hop_headers import EPOCH, SEQUENCE, STREAM
from topology.sequencer.linked import ChainRun
from topology.sequencer.own_order import OwnOrdering
from topology.sequencer.progress import State
from topology.sequencer.timers import Timers

Part = list[Any]
"""[time (ms), how many were given up before it, what the aggregate makes of it]; without the last
where only the second has changed."""


@dataclass(slots=True)
class Contribution:
    """One event's part in the fold of a key.

    plus, minus: what is to be added, and what is not so any more: the new and the old value of a
    row that was revised. stream, sequence, epoch: of the event, and how often its stream had been
    rebuilt.
    """

    plus: list[Part]
    minus: list[Part]
    stream: str
    sequence: int
    epoch: int


def encode_parts(plus: Sequence[Part], minus: Sequence[Part] = ()) -> bytes:
    """A record's value. Raises HandlerError for a number that JSON has not."""
    raw = orjson.dumps((plus, minus))
    if b"null" in raw:
        check_finite("by(…): what the event comes to", [part[-1] for part in (*plus, *minus)])
    return raw


@dataclass(frozen=True, slots=True)
class InOffsetOrder(StreamOrder):
    """The order of a topic that is filled in order: what comes next is next."""

    def follows(self, event: Event, last: int | None) -> bool:
        return True

    def ordering(self, **policies: Any) -> OwnOrdering:
        return _InOffsetOrdering(follows=self.follows, **policies)


class _InOffsetOrdering(OwnOrdering):
    """Of a stream in which nothing waits, what comes is the next."""

    __slots__ = ()

    def run(self, state: State, timers: Timers) -> ChainRun:
        return _InOffsetRun(self, state, timers)


class _InOffsetRun(ChainRun):
    def place_all(self, events: Iterable[Event]) -> None:
        changed, ready = self.result.changed, self.result.ready
        for event in events:
            stream = event.stream
            progress = self.current(stream)
            if progress.__class__ is int and event.sequence > progress:
                changed[stream] = event.sequence
                ready.append(event)
            else:
                self.place(event, progress)


def contribution_of(message: Message) -> Contribution:
    """Read a record.

    Raises:
        Malformed: nobody but the view before it may write to the topic, and this is none of its.
    """
    try:
        headers = dict(message.headers)
        plus, minus = orjson.loads(message.value or b"")
        return Contribution(
            _checked(plus), _checked(minus), (headers[STREAM] or b"").decode(),
            int(headers[SEQUENCE] or b""), int(headers.get(EPOCH) or b"0"),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError) as error:
        raise Malformed(f"no record of a fold by key: {error}") from None


def as_correction(before: Iterable[bytes], after: Iterable[bytes]) -> bytes | None:
    """What to send where a rebuild makes other records of a stream's events, None if it is the
    same.

    before, after: the values for one key. What stays is left out, so that an aggregate need not
    know how to take back what no rebuild changes.
    """
    plus, minus = _sums(after, before)
    for part in list(minus):
        same = next((each for each in plus if each[::2] == part[::2]), None)
        if same is not None:
            plus.remove(same)
            minus.remove(part)
            if difference := same[1] - part[1]:
                plus.append([part[0], difference])
    return encode_parts(plus, minus) if plus or minus else None


def _sums(added: Iterable[bytes], taken: Iterable[bytes]) -> tuple[list[Part], list[Part]]:
    plus: list[Part] = []
    minus: list[Part] = []
    for values, there, back in ((added, plus, minus), (taken, minus, plus)):
        for more, less in map(orjson.loads, values):
            there += more
            back += less
    return plus, minus


def _checked(parts: Sequence[Sequence[Any]]) -> list[Part]:
    for part in parts:
        if not (1 < len(part) < 4 and type(part[0]) is type(part[1]) is int):
            raise ValueError(f"{part!r:.100} is no part")
    return parts  # type: ignore[return-value]
