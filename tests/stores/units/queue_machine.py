"""Anything that may happen to a queue of units, its sessions and its owner, against plain rules."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stores.units.errors import UnitError, UnitHeld
from stores.units.queue import (
    EVERY,
    Filter,
    Outcome,
    QueueSettings,
    RowKey,
    RowValue,
    UnitMessage,
    UnitQueue,
)
from topology.ordered_commit.offset_ranges import OffsetRanges

UNITS = (None, "a", "b", "c")
NAMES = ("one", "two", "three")
RED = Filter.of(colour="red")
GONE = {Outcome.DEAD, Outcome.EXPIRED, Outcome.MOVED}


@dataclass
class Consumer:
    """A session as the consumer's process knows it: it lives on when an owner dies."""

    filter: Filter
    prefetch: int
    held: dict[int, UnitMessage] = field(default_factory=dict)
    """Delivery number → message."""
    unconfirmed: dict[int, UnitMessage] = field(default_factory=dict)
    """Offset → message that it completed, which may not be durable."""
    joined: bool = True


class QueueMachine(RuleBasedStateMachine):
    """A log, one owner at a time, and consumers that survive it."""

    poisoned: Literal["park", "dead_letter"] = "park"

    def __init__(self) -> None:
        super().__init__()
        self.settings = QueueSettings(
            redelivery_limit=2,
            redelivery_delay=1.0,
            poisoned=self.poisoned,
            look_ahead=3,
            parked_messages=8,
            dead_for=6.0,
            records=5,
        )
        self.now = 1_000.0
        self.log: list[UnitMessage] = []
        self.open: dict[int, bool | None] = {}
        """Uncommitted offsets → None, or how their send ended."""
        self.end = 0
        self.consumers: dict[str, Consumer] = {}
        self.rows: dict[RowKey, RowValue] = {}
        self.position, self.done = 0, OffsetRanges()
        self.durable: dict[int, str] = {}
        """Offset → how it ended, as far as that is durable."""
        self.ended: dict[int, str] = {}
        """The same, durable or not."""
        self.queue = UnitQueue(self.settings)

    # The log.

    @initialize()
    def open_some(self) -> None:
        self.open_session("one", EVERY, 2)
        self.open_session("two", EVERY, 1)

    @rule(
        unit=st.sampled_from(UNITS),
        sort=st.sampled_from((0.0, 0.0, -1.0, 5.0)),
        later=st.sampled_from((0.0, 0.0, 0.0, 3.0)),
        lives=st.sampled_from((None, None, None, 4.0)),
        red=st.booleans(),
        committed=st.sampled_from((True, True, True, False)),
        gap=st.sampled_from((0, 0, 1)),
        times=st.integers(1, 3),
    )
    def send(
        self,
        unit: str | None,
        sort: float,
        later: float,
        lives: float | None,
        red: bool,
        committed: bool,
        gap: int,
        times: int,
    ) -> None:
        for _ in range(times):
            message = UnitMessage(
                self.end + gap,
                unit,
                sort,
                self.now + later if later else 0.0,
                None if lives is None else self.now + lives,
                committed,
                {"colour": "red" if red else "blue"},
                size=1,
            )
            self.end += gap + 1
            self.log.append(message)
            if not committed:
                self.open[message.offset] = None
            self.queue.arrive(message, self.now)

    @precondition(lambda self: None in self.open.values())
    @rule(data=st.data(), commits=st.booleans())
    def end_send(self, data: st.DataObject, commits: bool) -> None:
        offset = data.draw(st.sampled_from([o for o, how in self.open.items() if how is None]))
        self.open[offset] = commits
        if commits:
            self.queue.commit_send(offset, self.now)
        else:
            self.queue.abort_send(offset, self.now)
            self.ended[offset] = self.durable[offset] = Outcome.ABORTED  # the log says it

    @rule(seconds=st.sampled_from((0.5, 1.0, 4.0, 10.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.queue.expire(self.now)
        assert self.queue.due is None or self.queue.due > self.now

    # Consumers.

    @rule(
        name=st.sampled_from(NAMES),
        chosen=st.sampled_from((EVERY, EVERY, RED)),
        prefetch=st.sampled_from((1, 1, 2, 4)),
    )
    def open_session(self, name: str, chosen: Filter, prefetch: int) -> None:
        if name not in self.consumers and name not in self.queue.former:
            self.queue.open_session(name, chosen, prefetch)
            self.consumers[name] = Consumer(chosen, prefetch)

    def keys(self) -> list[str | int]:
        return [*self.queue.units(), *self.queue.ungrouped()]

    def joined(self) -> list[str]:
        return [name for name, each in self.consumers.items() if each.joined]

    @precondition(lambda self: self.joined())
    @rule(data=st.data())
    def take(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.joined()))
        self.fetch(name)

    def fetch(self, name: str) -> int:
        consumer = self.consumers[name]
        deliveries = self.queue.next(name, self.now)
        for each in deliveries:
            self.check_order(name, each.message)
            assert each.number not in consumer.held
            consumer.held[each.number] = each.message
        assert len(consumer.held) <= consumer.prefetch
        if len(consumer.held) < consumer.prefetch and consumer.filter == EVERY:
            self.check_progress(name)
        return len(deliveries)

    def check_order(self, name: str, message: UnitMessage) -> None:
        """No unit at two sessions, no overtaking, nothing again after completion."""
        assert message.offset not in self.ended, "delivered again after completion"
        assert message.committed or self.open[message.offset]
        assert message.not_before <= self.now
        assert message.expires is None or message.expires > self.now
        assert self.consumers[name].filter.admits(message)
        for other, consumer in self.consumers.items():
            for held in consumer.held.values():
                assert held.offset != message.offset, "held twice"
                if message.unit is not None and held.unit == message.unit:
                    assert other == name, "a unit at two sessions"
        if message.unit is None:
            return
        mine = {held.offset for held in self.consumers[name].held.values()}
        mine |= set(self.consumers[name].unconfirmed)
        for earlier in self.log:
            if earlier.offset == message.offset:
                break
            if earlier.unit == message.unit:
                assert earlier.offset in self.durable or earlier.offset in mine, "overtaken"

    def check_progress(self, name: str) -> None:
        """Who has room and takes everything, gets everything that may be had."""
        for unit in self.keys():
            status = self.queue.status(unit)
            assert status.state != "ready", f"{unit} is held back: {status}"
            if unit.__class__ is int and not status.held:
                blocked = {"parked", "paused", "delayed", "uncommitted", "rejoining"}
                assert status.state in blocked or self.queue.former

    def holders(self) -> list[str]:
        return [name for name in self.joined() if self.consumers[name].held]

    @precondition(lambda self: self.joined())
    @rule()
    def all_take(self) -> None:
        for name in self.joined():
            self.fetch(name)

    @precondition(lambda self: self.holders())
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.holders()))
        consumer = self.consumers[name]
        numbers = data.draw(st.lists(st.sampled_from(sorted(consumer.held)), min_size=1))
        self.queue.complete(name, numbers, self.now)
        self.completed(consumer, numbers)

    def completed(self, consumer: Consumer, numbers: list[int]) -> None:
        for number in set(numbers):
            message = consumer.held.pop(number)
            consumer.unconfirmed[message.offset] = message
            self.ended[message.offset] = "complete"

    @precondition(lambda self: self.holders())
    @rule(data=st.data(), delay=st.sampled_from((None, 0.0, 0.0, 5.0)))
    def roll_back(self, data: st.DataObject, delay: float | None) -> None:
        name = data.draw(st.sampled_from(self.holders()))
        consumer = self.consumers[name]
        number = data.draw(st.sampled_from(sorted(consumer.held)))
        unit = consumer.held[number].unit
        self.queue.roll_back(name, [number], self.now, delay)
        for each, message in list(consumer.held.items()):
            if each == number or (unit is not None and message.unit == unit):
                del consumer.held[each]

    @precondition(lambda self: self.joined())
    @rule(data=st.data(), how=st.sampled_from(("complete", "return", "lose", "recover")))
    def end_session(self, data: st.DataObject, how: str) -> None:
        name = data.draw(st.sampled_from(self.joined()))
        consumer = self.consumers[name]
        if how == "recover":
            self.queue.recover(name, self.now)
            consumer.held.clear()
            return
        if how == "complete":
            self.completed(consumer, list(consumer.held))
            self.queue.close_session(name, self.now, complete=True)
        elif how == "return":
            self.queue.close_session(name, self.now)
        else:
            self.queue.lose_session(name, self.now)
        del self.consumers[name]

    # The owner.

    @rule(lost=st.sampled_from((False, False, True)))
    def commit(self, lost: bool) -> None:
        """A transaction; one whose answer was lost is committed, and the next confirms it."""
        changes = self.queue.take_changes()
        for key, value in changes.rows.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        assert changes.position >= self.position
        self.position, self.done = changes.position, changes.done
        for each in changes.departures:
            assert each.outcome in GONE
            assert each.message.offset not in self.ended, "gone twice"
            self.ended[each.message.offset] = each.outcome
        self.durable.update(self.ended)
        if not lost:
            for name in self.joined():
                self.consumers[name].unconfirmed.clear()
            self.queue.settled(changes.number, self.now)

    @rule()
    def owner_dies(self) -> None:
        """What is not durable is lost; sessions wait to rejoin."""
        self.ended = dict(self.durable)
        self.queue = UnitQueue(self.settings)
        self.queue.restore(self.rows, self.position, self.done, self.now, self.consumers)
        for message in self.log:
            if message.offset >= self.position:
                self.queue.arrive(message, self.now)
        for offset, how in self.open.items():
            if how is True:
                self.queue.commit_send(offset, self.now)
            elif how is False:
                self.queue.abort_send(offset, self.now)
        for consumer in self.consumers.values():
            consumer.joined = False

    @precondition(lambda self: len(self.joined()) < len(self.consumers))
    @rule(data=st.data(), lost=st.sampled_from((False, False, True)))
    def rejoin(self, data: st.DataObject, lost: bool) -> None:
        away = [name for name, each in self.consumers.items() if not each.joined]
        self.come_back(data.draw(st.sampled_from(away)), lost)

    def come_back(self, name: str, lost: bool) -> None:
        consumer = self.consumers[name]
        if lost:  # it died too, and what it completed is not known to anybody
            del self.consumers[name]
            self.queue.release_former(name)
            return
        self.queue.open_session(name, consumer.filter, consumer.prefetch)
        self.ended.update(dict.fromkeys(consumer.unconfirmed, "complete"))
        held = {message.offset for message in consumer.held.values()}
        deliveries = self.queue.rejoin(name, held, list(consumer.unconfirmed), self.now)
        assert {each.message.offset for each in deliveries} == held - set(self.ended)
        consumer.held = {each.number: each.message for each in deliveries}
        consumer.joined = True

    # Administration.

    @rule(
        action=st.sampled_from(("park", "redrive", "pause", "resume")),
        unit=st.sampled_from(("a", "b", "c", None)),
    )
    def administer(self, action: str, unit: str | None) -> None:
        if unit is None and action in {"park", "redrive"}:
            return
        try:
            getattr(self.queue, action)(unit, self.now, by="me")
        except UnitHeld:
            held = [m.unit for c in self.consumers.values() for m in c.held.values()]
            assert unit in held or self.queue.former
        except UnitError:
            assert action in {"park", "redrive"}

    @precondition(lambda self: self.log and not self.queue.former)
    @rule(data=st.data(), action=st.sampled_from(("move", "delete")))
    def take_away(self, data: st.DataObject, action: str) -> None:
        message = data.draw(st.sampled_from(self.log))
        held = {m.offset: m for c in self.consumers.values() for m in c.held.values()}
        key = message.offset if message.unit is None else message.unit
        stay = {each.offset for each in self.queue.waiting(key)} - {message.offset}
        try:
            if action == "move":
                record = self.queue.move([message.offset], "elsewhere", self.now, by="me")
            else:
                record = self.queue.delete([message.offset], self.now, by="me")
        except UnitHeld:
            assert message.offset in held or message.unit in {m.unit for m in held.values()}
        except UnitError:
            assert self.is_gone(message.offset) or not self.open.get(message.offset, True)
        else:
            assert message.offset not in held
            assert record.breaks_order == bool(stay)
            if action == "delete":
                self.ended[message.offset] = Outcome.DELETED

    def is_gone(self, offset: int) -> bool:
        return offset in self.ended or all(
            offset != each.offset for unit in self.keys() for each in self.queue.waiting(unit)
        )

    # What holds at any time.

    @invariant()
    def the_queue_and_the_consumers_agree(self) -> None:
        by_unit: dict[str | int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for name in self.joined():
            for message in self.consumers[name].held.values():
                key = message.offset if message.unit is None else message.unit
                by_unit[key][name].append(message.offset)
        for unit, holders in by_unit.items():
            assert len(holders) == 1
            ((name, offsets),) = holders.items()
            status = self.queue.status(unit)
            assert status.session == name
            assert sorted(status.held) == sorted(offsets)

    def teardown(self) -> None:
        """Nothing is lost: with all hindrances gone, each message ends in exactly one place."""
        for offset, how in self.open.items():
            if how is None:
                self.open[offset] = True
                self.queue.commit_send(offset, self.now)
        for name in list(self.consumers):
            if not self.consumers[name].joined:
                self.come_back(name, lost=False)
            self.queue.close_session(name, self.now)
            del self.consumers[name]
        self.queue.resume(None, self.now, by="me")
        self.open_session("last", EVERY, 3)
        for _ in range(4):
            for unit in list(self.queue.units()):
                self.queue.resume(unit, self.now, by="me")
            for key in self.keys():
                if self.queue.status(key).state == "parked":
                    self.queue.redrive(key, self.now, by="me")
            self.time_passes(20.0)
            self.commit(lost=False)
            while self.fetch("last"):
                self.completed(self.consumers["last"], list(self.consumers["last"].held))
                self.queue.close_session("last", self.now, complete=True)
                del self.consumers["last"]
                self.open_session("last", EVERY, 3)
                self.commit(lost=False)
        assert {each.offset for each in self.log} == set(self.durable)
        assert self.queue.messages == self.queue.size == 0
        assert self.position == self.end
        assert not list(self.done)
        assert not [row for row in self.rows if row[0] in {"message", "redelivered"}]
        assert len([row for row in self.rows if row[0] == "record"]) <= 5
        assert self.keys() == []
        super().teardown()


class DeadLetterMachine(QueueMachine):
    poisoned = "dead_letter"
