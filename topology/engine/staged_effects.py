"""What attempts of a partition have staged: kept until their turn, dropped when rolled back. Pure.

Nothing of it is durable before its turn: outputs, messages and the streams' states are in memory,
and the next event of a stream reads the state that the one before it has staged.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import orjson

from topology.declaration.ordered_stage import OrderedStage
from topology.engine.commit_unit import CommitUnit
from topology.engine.output.handling import Handling
from topology.engine.state.rows import (
    BUFFERS,
    EPOCHS,
    buffer_key,
    buffer_range,
    decode_message,
    decode_progress,
    encode_message,
    encode_progress,
    epoch_key,
    going_key,
    split_buffer_key,
)
from topology.engine.state.rows import progress_key as state_key
from topology.model.changes import Delete, Emit, Upsert
from topology.model.errors import Malformed
from topology.model.event import Event, event_of
from topology.model.partition_table import PartitionTable, Row
from topology.ordered_commit import Grant, Key, Touched

RECORD = 200
"""Bytes that a staged message takes besides its value."""


@dataclass(slots=True)
class Staged:
    """The effects of one attempt.

    state: what the event leaves of its stream's dictionary, None where it leaves it as it was.
    parks: whether the stream is parked from here on, or goes on again; None: as before. failed,
    dead: events that it passes over, or puts into the dead topic. beside: the states that a batch
    leaves of other streams.
    """

    event: Event
    unit: CommitUnit
    state: bytes | None = None
    rows: list[Row] = field(default_factory=list)
    parks: bool | None = None
    failed: int = 0
    dead: int = 0
    beside: "Sequence[Staged]" = ()

    @property
    def size(self) -> int:
        """Bytes of its messages and its states, about."""
        records = (*self.unit.colocated.values(), *self.unit.keyed.values())
        size = sum(RECORD + len(out[1] or b"") for each in records for out in each) + len(
            self.state or b""
        )
        return size + sum(len(each.state or b"") for each in self.beside) if self.beside else size


ALL = 1 << 62
"""More than there are."""


class StagedEffects:
    """The staged effects of a partition, by the number of their grant.

    Args:
        stage: whose they are.
        table: what is durable of it: states of streams, parked events.
        parked: the events that are parked durably, in the order of their rows: stream and number.

    Attributes:
        held: how many events are parked durably.
    """

    def __init__(
        self, stage: OrderedStage, table: PartitionTable, parked: Iterable[tuple[str, int]]
    ) -> None:
        self._stage = stage
        self._view = stage.view
        self._table = table
        self._parked: dict[str, int] = {}
        """Stream → the number of its last event that is parked durably."""
        self.held = 0
        for self.held, (stream, number) in enumerate(parked, 1):
            self._parked[stream] = number
        self._handling = Handling(stage.view, CommitUnit(stage.topic, 0), lambda stream: None)
        if any(True for _ in table.scan(*EPOCHS)):
            self._handling.formatter.epoch_of = self.epoch
        self._staged: dict[int, Staged] = {}
        self._by_stream: dict[str, dict[int, Staged]] = {}
        # With one partition for all, what a stream puts out goes where its key says.
        self._colocated = stage.arrivals and stage.work.scope == "partition"

    def state_of(self, stream: str) -> dict[str, Any]:
        """A stream's dictionary, as the last event of it has left it, staged or durable."""
        raw: bytes | None = None
        for staged in reversed(self._by_stream.get(stream, {}).values()):
            if staged.state is not None:
                raw = staged.state
                break
        else:
            row = self._table.get(state_key(stream))
            raw = None if row is None else decode_progress(row)[1]
        return {} if raw is None else orjson.loads(raw)

    def parked(self, stream: str) -> bool:
        """Whether a stream's events are set aside, since one of it was."""
        for staged in reversed(self._by_stream.get(stream, {}).values()):
            if staged.parks is not None:
                return staged.parks
        return stream in self._parked

    def goes_on(self, stream: str) -> bool:
        """Whether some of what was parked of a stream was let go, and more is to be: the next one
        has not failed, so nobody goes on without it."""
        return self._row(stream, going_key(stream)) is not None

    def epoch(self, stream: str) -> int:
        """How often a stream was dropped."""
        return int(self._row(stream, epoch_key(stream)) or b"0")

    def begin_anew(self, staged: Staged) -> None:
        """A stream is dropped: what it says from now on is of the next epoch."""
        stream = staged.event.stream
        staged.state = b"{}"
        staged.rows.append((epoch_key(stream), b"%d" % (self.epoch(stream) + 1)))
        self._handling.formatter.epoch_of = self.epoch

    def _row(self, stream: str, at: bytes) -> bytes | None:
        """A row of a stream, as the last event of it has left it, staged or durable."""
        for staged in reversed(self._by_stream.get(stream, {}).values()):
            for key, row in reversed(staged.rows):
                if key == at:
                    return row
        return self._table.get(at)

    def go_on(self, staged: Staged, more: bool) -> None:
        """Note with a release whether more of its stream is to be let go."""
        if more is not self.goes_on(staged.event.stream):
            staged.rows.append((going_key(staged.event.stream), b"1" if more else None))

    def parked_events(self, stream: str, most: int = ALL) -> list[tuple[bytes, Event, str]]:
        """What is set aside of a stream, in its order, the first ones: the key of its row, the
        event, and why it is none any more by its inspector, as of now; empty if it is one."""
        changed: dict[bytes, bytes | None] = {}
        for staged in self._by_stream.get(stream, {}).values():
            changed.update(each for each in staged.rows if each[0][:1] == BUFFERS[0])
        durable = islice(self._table.scan(*buffer_range(stream)), most + len(changed))
        rows: dict[bytes, bytes | None] = {**dict(durable), **changed}
        found: list[tuple[bytes, Event, str]] = []
        for key in sorted(rows):
            if len(found) == most:
                break
            if (row := rows[key]) is not None:
                message, arrived = decode_message(row)
                try:
                    inspected = self._view.of.inspect_whole(message)
                except Malformed as reason:
                    inspected, why = None, str(reason)
                else:
                    why = "its inspector does not know it"
                if inspected is not None:
                    found.append((key, event_of(*inspected, message, arrived), ""))
                else:
                    number = split_buffer_key(key)[1]
                    found.append((key, event_of(stream, number, None, None, message, arrived), why))
        return found

    def made(self, event: Event, items: Iterable[Any], state: dict[str, Any], now: int) -> Staged:
        """What a handler yielded, as effects. Raises HandlerError."""
        unit = CommitUnit(self._stage.topic, 0, now=now)
        # One handling serves all: a new one for each event would cost more than what it does.
        handling = self._handling
        handling.unit, handling.sent, handling.outputs = unit, unit.sent, []
        handling.live, handling.states, handling.unrouted = state, {}, []
        handling.write(event, items)
        handling.finish()
        unit.unrouted = len(handling.unrouted)
        return Staged(event, unit, handling.states.get(event.stream))

    def made_of_batch(
        self,
        events: Sequence[Event],
        items: Sequence[Iterable[Any]],
        states: dict[str, dict[str, Any]],
        now: int,
    ) -> Staged:
        """The same of a batch: the items of each event, the state of each stream."""
        last = {event.stream: event for event in events}
        unit, streams = CommitUnit(self._stage.topic, 0, now=now), list[Staged]()
        for event, each in zip(events, items, strict=True):
            ends = last[event.stream] is event
            if ends or each:
                made = self.made(event, each, states[event.stream], now)
                self.merge(made.unit, unit)
                if ends:
                    keyed = self._stage.stream(event) is not None
                    state = made.state if keyed else None
                    streams.append(Staged(event, CommitUnit(self._stage.topic, 0), state))
        whole = streams.pop()
        whole.unit, whole.beside = unit, streams
        return whole

    def park(self, grant: Grant, staged: Staged) -> int:
        """Set an event aside, in the order of arrival: a stream may begin its sequence anew."""
        staged.parks = True
        event = staged.event
        # Also where the log was made anew, and its offsets are low again.
        number = max(grant.offset, self._last_parked(event.stream) + 1)
        key = buffer_key(event.stream, number)
        staged.rows.append((key, encode_message(event.message, event.arrived)))
        return self.stage(grant, staged)

    def _last_parked(self, stream: str) -> int:
        """The number of a stream's last event that is parked, staged or durable; -1 for none."""
        for staged in reversed(self._by_stream.get(stream, {}).values()):
            for key, row in staged.rows:
                if key[:1] == BUFFERS[0] and row is not None:
                    return split_buffer_key(key)[1]
        return self._parked.get(stream, -1)

    def stage(self, grant: Grant, staged: Staged) -> int:
        """Keep effects until their turn. Returns their bytes."""
        self._staged[grant.number] = staged
        self._by_stream.setdefault(staged.event.stream, {})[grant.number] = staged
        for each in staged.beside:
            self._by_stream.setdefault(each.event.stream, {})[grant.number] = each
        return staged.size

    def of(self, grant: Grant) -> Staged:
        """What an attempt has staged."""
        return self._staged[grant.number]

    def drop(self, grant: Grant) -> None:
        """An attempt is rolled back."""
        staged = self._staged.pop(grant.number, None)
        if staged is not None:
            self._let_go(grant, staged)

    def _let_go(self, grant: Grant, staged: Staged) -> None:
        for each in (staged, *staged.beside):
            stream = each.event.stream
            of_stream = self._by_stream[stream]
            del of_stream[grant.number]
            if not of_stream:
                del self._by_stream[stream]

    def put(self, turns: Sequence[Grant], unit: CommitUnit) -> None:
        """Put the effects of attempts into the unit that commits them, in this order."""
        rows: dict[bytes, bytes | None] = {}
        for grant in turns:
            staged = self._staged[grant.number]
            self.merge(staged.unit, unit)
            rows.update(staged.rows)
            for each in (staged, *staged.beside):
                if each.state is not None:
                    empty = each.state == b"{}"
                    row = None if empty else encode_progress(each.event.sequence, each.state)
                    rows[state_key(each.event.stream)] = row
        if rows:
            unit.rows.setdefault(self._stage.name, []).extend(rows.items())

    def given_up(self, turns: Sequence[Grant]) -> tuple[int, int]:
        """How many events attempts have passed over, and put into the dead topic."""
        staged = [self._staged[grant.number] for grant in turns]
        return sum(each.failed for each in staged), sum(each.dead for each in staged)

    def merge(self, made: CommitUnit, unit: CommitUnit) -> None:
        """Put what one event puts out into the unit that has it at its turn."""
        for topic, records in made.colocated.items():
            (unit.colocated if self._colocated else unit.keyed)[topic] += records
        for topic, records in made.keyed.items():
            unit.keyed[topic] += records
        unit.sent += made.sent
        unit.reports += made.reports
        unit.malformed += made.malformed
        unit.unrouted += made.unrouted

    def committed(self, turns: Sequence[Grant]) -> None:
        """The unit of these attempts is durable, and their rows are in the table."""
        for grant in turns:
            staged = self._staged.pop(grant.number)
            self._let_go(grant, staged)
            stream = staged.event.stream
            for key, row in staged.rows:
                if key[:1] == BUFFERS[0]:
                    self.held += 1 if row is not None else -1
                    if row is not None:
                        self._parked[stream] = split_buffer_key(key)[1]
            if staged.parks is False:
                self._parked.pop(stream, None)


def touched_keys(event: Event, items: Iterable[Any], *, stateful: bool) -> Touched:
    """The keys that an event was seen to write: rows, messages' keys, its stream's state."""
    writes: set[Key] = set()
    if stateful:
        writes.add(("", event.stream))
    for item in items:
        if isinstance(item, Upsert | Delete):
            writes.add((item.table, _row(item.key)))
        elif isinstance(item, Emit) and item.key is not None:
            # Messages without a key have no order among each other.
            key = item.key
            text = key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else str(key)
            writes.add((item.topic, text))
    return Touched.of(writes)


def _row(key: Mapping[str, Any]) -> str:
    """A row's key as text: of one column its value, which may be learned to be the stream."""
    if len(key) == 1:
        return str(next(iter(key.values())))
    return orjson.dumps(key, default=str, option=orjson.OPT_SORT_KEYS).decode()
