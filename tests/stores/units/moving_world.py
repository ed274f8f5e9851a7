"""A destination with a path service, two subscribers and failing processes, in memory and seeded.

The queue, the succession, the path map and the progress are the real ones; logs and transactions
are lists. Producers may be killed or stop for longer than their lease, with messages on their way.
"""

import random
from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

from stores.units.errors import MemberUnavailable, RouteMoving, UnitError
from stores.units.queue import (
    Delivery,
    Handover,
    Outcome,
    QueueSettings,
    RowKey,
    RowValue,
    UnitMark,
    UnitMessage,
    UnitQueue,
)
from stores.units.routing import PathEntry, PathMap, SubscriberProgress
from stores.units.server.succession import Succession
from topology.ordered_commit.offset_ranges import OffsetRanges

MEMBERS, GROUPS, LEASE = 3, ("g", "h"), 3.0
LATE = "late"
UNITS = ("a", "b", "c", "d")


@dataclass
class Record:
    """One of a member's log. sent: who sent it, and its number of that producer's in the unit."""

    unit: str
    epoch: int = 0
    sent: tuple[str, int] | None = None
    handover: Handover | None = None
    group: str = ""


@dataclass
class Hold:
    """A route as a producer has it."""

    member: int
    epoch: int
    until: float


@dataclass
class OnItsWay:
    """A message that was handed to the Kafka client. late: its answer came after the lease."""

    number: int
    hold: Hold
    appended: bool = False


@dataclass
class Producer:
    """One that sends; alive or not, what it sent may arrive."""

    name: str
    holds: dict[str, Hold] = field(default_factory=dict)
    sending: dict[str, list[OnItsWay]] = field(default_factory=lambda: defaultdict(list))
    number: Counter[str] = field(default_factory=Counter)
    asleep: float = 0.0


@dataclass
class Consumer:
    """A session with one member, which outlives the owner."""

    held: dict[int, UnitMessage] = field(default_factory=dict)
    unconfirmed: dict[int, UnitMessage] = field(default_factory=dict)


class MemberOwner:
    """The owner of a member for a subscriber, and what it made durable."""

    def __init__(self, world: "MovingWorld", group: str, member: int) -> None:
        self.world, self.group, self.member = world, group, member
        self.rows: dict[RowKey, RowValue] = {}
        self.position, self.done = 0, OffsetRanges()
        self.consumers: dict[str, Consumer] = {}
        self.begin()

    def begin(self) -> None:
        self.queue = UnitQueue(QueueSettings(redelivery_limit=None, poisoned="park"))
        self.read = self.position
        names = list(self.consumers)
        self.queue.restore(self.rows, self.position, self.done, self.world.now, names)
        self.succession = Succession(names)

    def arrive(self, most: int) -> None:
        log = self.world.logs[self.member]
        for offset in range(self.read, min(self.read + most, len(log))):
            record, now = log[offset], self.world.now
            if record.handover is None or record.handover.kind != "handed":
                message = UnitMessage(
                    offset, record.unit, content=record.sent, handover=record.handover
                )
                self.queue.arrive(message, now, record.epoch)
            elif record.group == self.group:
                self.queue.handed(record.unit, record.handover.epoch, offset, now)
            self.read = offset + 1
        self.queue.nothing_below(self.read)
        self.succeed()

    def succeed(self) -> None:
        """Hear the sessions of the former owner, and go on with what they hold."""

        def settle() -> None:
            self.commit(known=False)

        found = None
        if not self.succession.over:
            found = self.succession.decide(self.queue, self.world.now, settle)
        for name, deliveries in (found or {}).items():
            consumer = self.consumers[name]
            told = {each.offset for each in consumer.held.values()}
            consumer.held = {each.number: each.message for each in deliveries}
            assert {each.offset for each in consumer.held.values()} == told, "what it held is gone"

    def commit(self, known: bool = True) -> None:
        """A transaction. known: whether the queue knows what the sessions have completed."""
        changes = self.queue.take_changes()
        for key, value in changes.rows.items():
            self.rows.pop(key, None) if value is None else self.rows.__setitem__(key, value)
        self.position, self.done = changes.position, changes.done
        for each in changes.departures:
            message = each.message
            assert message.unit is not None
            if message.handover is not None:
                there = Handover("handed", message.handover.epoch, self.member)
                self.world.logs[message.handover.other].append(
                    Record(message.unit, handover=there, group=self.group)
                )
            else:
                assert each.outcome is Outcome.REFUSED
                self.world.refused[self.group, message.unit].append(message.content)
        for consumer in self.consumers.values() if known and self.succession.over else ():
            for offset in consumer.unconfirmed:
                self.world.durable[self.group].add((self.member, offset))
            consumer.unconfirmed.clear()
        self.queue.settled(changes.number, self.world.now)
        self.tell()

    def tell(self) -> None:
        """The rows, as the path service reads them."""
        progress = self.world.progress
        for unit in UNITS:
            mark = self.rows.get(("unit", unit))
            value = asdict(mark) if isinstance(mark, UnitMark) else None
            progress.take(self.group, self.member, ("unit", unit), value)
        parked = {key[1]: row for key, row in self.rows.items() if key[0] == "message"}
        for offset in range(len(self.world.logs[self.member])):
            row = parked.get(offset)
            told = {"unit": row.unit} if isinstance(row, UnitMessage) else None
            progress.take(self.group, self.member, ("message", offset), told)
        progress.take(self.group, self.member, ("position",), {"position": self.position})


class MovingWorld:
    """All of it. Each step is one thing that may happen."""

    def __init__(self, seed: int) -> None:
        self.random, self.now = random.Random(seed), 100.0
        self.logs: list[list[Record]] = [[] for _ in range(MEMBERS)]
        self.progress = SubscriberProgress()
        self.stored: dict[str, PathEntry] = {}
        self.epoch = 0
        self.paths = self.new_paths()
        self.probes: dict[tuple[str, int], tuple[int, int]] = {}
        self.order: dict[str, list[tuple[str, int]]] = defaultdict(list)
        """Unit → what came in time, wherever, in its order."""
        self.acked: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.refused: dict[tuple[str, str], list[Any]] = defaultdict(list)
        self.durable: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self.completed: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
        self.owners = {(g, m): MemberOwner(self, g, m) for g in GROUPS for m in range(MEMBERS)}
        self.producers = [Producer("p0"), Producer("p1")]
        self.dead: list[Producer] = []
        self.seen: Counter[str] = Counter()
        for key, owner in self.owners.items():
            for number in range(2):
                self.open(owner, f"{key[0]}{number}")
        self.names = 2
        self.settling = False
        self.elsewhere: set[str] = set()
        """Units whose path was deleted: a subscriber that begins later reads both members."""

    # The path service.

    def new_paths(self) -> PathMap:
        paths = PathMap([str(each) for each in range(MEMBERS)], LEASE)
        paths.restore(self.stored, self.now, self.epoch)
        return paths

    def commit_paths(self) -> None:
        for unit, entry in self.paths.take_rows().items():
            self.stored.pop(unit, None) if entry is None else self.stored.__setitem__(unit, entry)
        self.epoch = self.paths.epoch

    def path_service_dies(self) -> None:
        self.paths = self.new_paths()
        self.probes.clear()
        self.seen["path service died"] += 1

    def lead(self) -> None:
        """Moves whose old route nobody has, and units that nobody uses."""
        for move in self.paths.fenced(self.now):
            source, target = int(move.source), int(move.target)
            leaves = Handover("leaves", move.epoch, target)
            self.logs[source].append(Record(move.what, handover=leaves))
            arrives = Handover("arrives", move.epoch, source)
            self.logs[target].append(Record(move.what, handover=arrives))
            assert self.paths.drained(move.what, move.epoch, self.now)
            self.seen["moved"] += 1
        waiting = {
            unit
            for each in [*self.producers, *self.dead]
            for unit, sent in each.sending.items()
            if not all(one.appended for one in sent)
        }
        for unit, route in self.paths.unused():
            if unit in waiting:  # see docs/units.md for what a stopped process may do later
                continue
            key, member = (unit, route.epoch), int(route.member)
            if key not in self.probes:
                self.probes[key] = member, len(self.logs[member])
                self.logs[member].append(Record("", handover=Handover("handed", 0, 0)))
            elif self.progress.passed(*self.probes[key]) and unit not in self.progress.kept():
                assert self.paths.emptied(unit, route.epoch)
                self.seen["deleted"] += 1
                if not self.settling:
                    self.elsewhere.add(unit)
                    self.seen["deleted meanwhile"] += 1
        self.commit_paths()

    def move(self) -> None:
        try:
            self.paths.move(
                self.random.choice(UNITS), str(self.random.randrange(MEMBERS)), self.now
            )
        except UnitError:
            return
        self.commit_paths()

    # Producers.

    def awake(self) -> list[Producer]:
        return [each for each in self.producers if each.asleep <= self.now]

    def beat(self) -> None:
        """Renew: routes of units that move are dropped once nothing is on its way by them."""
        for producer in self.awake():
            if not self.paths.renew(producer.name, self.now):
                producer.holds.clear()
            for unit, hold in list(producer.holds.items()):
                if unit not in self.paths.dropped_by(producer.name) and hold.until > self.now:
                    hold.until = self.now + LEASE
                elif not producer.sending[unit]:
                    del producer.holds[unit]
                    self.paths.leave(unit, producer.name)
        self.commit_paths()

    def send(self) -> None:
        for producer in self.awake():
            unit = self.random.choice(UNITS)
            hold, waiting = producer.holds.get(unit), producer.sending[unit]
            if any(each.hold is not hold for each in waiting) or len(waiting) > 2:
                continue  # what went by the old route has to have an answer first
            if hold is not None and unit in self.paths.dropped_by(producer.name):
                continue
            if hold is None or hold.until <= self.now:
                try:
                    route = self.paths.route(unit, producer.name, self.now)
                except (RouteMoving, MemberUnavailable):
                    continue
                self.commit_paths()
                hold = Hold(int(route.member), route.epoch, self.now + LEASE)
                producer.holds[unit] = hold
            producer.number[unit] += 1
            waiting.append(OnItsWay(producer.number[unit], hold))

    def append(self, producer: Producer | None = None) -> None:
        """What is on its way arrives, also of those that are dead or asleep."""
        producer = producer or self.random.choice(self.producers + self.dead)
        for unit, waiting in producer.sending.items():
            for each in waiting:
                if not each.appended and self.random.random() < 0.7:
                    each.appended = True
                    sent, log = (producer.name, each.number), self.logs[each.hold.member]
                    left = [r.handover.epoch for r in log if r.unit == unit and r.handover
                            and r.handover.kind == "leaves"]  # fmt: skip
                    if max(left, default=0) < each.hold.epoch:
                        self.order[unit].append(sent)
                    log.append(Record(unit, each.hold.epoch, sent))
                elif not each.appended:
                    break  # Kafka keeps a producer's order

    def answer(self) -> None:
        for producer in self.awake():
            for unit, waiting in producer.sending.items():
                while waiting and waiting[0].appended:
                    each = waiting.pop(0)
                    if self.now <= each.hold.until:
                        self.acked[unit].append((producer.name, each.number))
                    else:
                        self.seen["late answer"] += 1

    def producer_sleeps(self) -> None:
        self.random.choice(self.producers).asleep = self.now + self.random.choice((1.0, 5.0))

    def producer_dies(self) -> None:
        victim = self.random.choice(self.producers)
        self.producers.remove(victim)
        self.dead.append(victim)
        self.producers.append(Producer(f"p{self.names}"))
        self.names += 1

    def producer_leaves(self) -> None:
        for producer in self.awake():
            unit = self.random.choice(UNITS)
            if unit in producer.holds and not producer.sending[unit]:
                del producer.holds[unit]
                self.paths.leave(unit, producer.name)
        self.commit_paths()

    # Subscribers.

    def owner(self) -> MemberOwner:
        return self.random.choice(list(self.owners.values()))

    def open(self, owner: MemberOwner, name: str) -> None:
        owner.queue.open_session(name, prefetch=self.random.choice((1, 2)))
        owner.consumers[name] = Consumer()

    def read(self) -> None:
        self.owner().arrive(self.random.randint(1, 4))

    def owner_commits(self) -> None:
        self.owner().commit()

    def owner_dies(self) -> None:
        owner = self.owner()
        owner.begin()
        for name, consumer in list(owner.consumers.items()):
            if self.random.random() < 0.3:  # it died too
                del owner.consumers[name]
                owner.succession.forget(name)
                continue
            owner.queue.open_session(name, prefetch=2)
            held = [each.offset for each in consumer.held.values()]
            assert owner.succession.tell(name, held, list(consumer.unconfirmed))
        if not owner.consumers:
            self.open(owner, f"{owner.group}n{self.names}")
            self.names += 1
        owner.succeed()

    def fetch(self, owner: MemberOwner) -> None:
        for name, consumer in owner.consumers.items():
            for delivery in owner.queue.next(name, self.now):
                self.check(owner, name, delivery)
                consumer.held[delivery.number] = delivery.message

    def take(self) -> None:
        self.fetch(self.owner())

    def check(self, owner: MemberOwner, name: str, delivery: Delivery) -> None:
        """Nobody else works on the unit, on whichever member; nothing overtakes."""
        message = delivery.message
        assert message.handover is None
        if owner.group == LATE and message.unit in self.elsewhere:
            return
        self.seen["late, in order"] += owner.group == LATE
        for (group, member), other in self.owners.items():
            for who, consumer in other.consumers.items() if group == owner.group else ():
                if (member, who) != (owner.member, name):
                    held = {each.unit for each in consumer.held.values()}
                    assert message.unit not in held, "a unit is with two at once"
        assert message.unit is not None
        order, done = self.order[message.unit], set(self.completed[owner.group, message.unit])
        mine = {each.content for each in owner.consumers[name].held.values()}
        before = set(order[: order.index(message.content)])
        assert before <= done | mine, "overtaken"
        assert (owner.member, message.offset) not in self.durable[owner.group], "it comes again"

    def finish(self, owner: MemberOwner) -> None:
        for name, consumer in owner.consumers.items():
            for number, message in list(consumer.held.items()):
                if number in consumer.held and self.random.random() < 0.8:
                    owner.queue.complete(name, [number], self.now)
                    consumer.unconfirmed[message.offset] = consumer.held.pop(number)
                    assert message.unit is not None
                    self.completed[owner.group, message.unit].append(message.content)
                elif self.random.random() < 0.5:
                    owner.queue.roll_back(name, [number], self.now)
                    for each, held in list(consumer.held.items()):
                        if held.unit == message.unit:
                            del consumer.held[each]
                    break

    def complete(self) -> None:
        owner = self.owner()
        if owner.succession.over:
            self.finish(owner)

    def administer(self) -> None:
        owner, unit = self.owner(), self.random.choice(UNITS)
        try:
            if owner.queue.status(unit).state == "parked":
                owner.queue.redrive(unit, self.now, by="me")
            else:
                owner.queue.park(unit, self.now, by="me")
                self.seen["parked"] += 1
        except UnitError:
            pass

    def pause(self) -> None:
        """Nobody sends to one unit for a while, and what there is is worked off."""
        unit = self.random.choice(UNITS)
        for producer in self.awake():
            if unit in producer.holds and not producer.sending[unit]:
                del producer.holds[unit]
                self.paths.leave(unit, producer.name)
        for _ in range(3):
            for owner in self.owners.values():
                owner.arrive(1_000)
                self.fetch(owner)
                if owner.succession.over:
                    self.finish(owner)
                owner.commit()
            self.lead()

    def run(self, steps: int) -> None:
        often = [self.send, self.append, self.answer, self.read, self.take, self.complete]
        often += [self.owner_commits, self.lead, self.beat]
        seldom = [self.pause, self.move, self.producer_leaves, self.owner_dies]
        rare = [self.producer_sleeps, self.producer_dies, self.path_service_dies]
        rare += [self.administer] * 4
        chosen = often * 6 + seldom * 2 + rare
        for _ in range(steps):
            self.random.choice(chosen)()
            self.now += self.random.choice((0.0, 0.0, 0.1, 0.5))
        self.settle()
        self.begin_late()
        self.verdict()

    def settle(self) -> None:
        """No more harm: everything that was sent is worked off, and the paths end."""
        for producer in [*self.producers, *self.dead]:
            producer.asleep = 0.0
        for _ in range(60):
            for producer in [*self.producers, *self.dead]:
                self.append(producer)
            self.answer()
            self.beat()
            self.lead()
            self.now += 0.2
            for owner in self.owners.values():
                for unit in UNITS:
                    if owner.queue.status(unit).state == "parked":
                        owner.queue.redrive(unit, self.now, by="me")
                owner.arrive(1_000)
                self.fetch(owner)
                self.finish(owner)
                owner.commit()
        self.settling = True
        for producer in self.producers:
            self.paths.close(producer.name)
        self.now += LEASE
        for _ in range(3):
            self.lead()
            for owner in self.owners.values():
                owner.arrive(1_000)
                owner.commit()
        assert self.paths.entries() == {}, "a path leaks"

    def begin_late(self) -> None:
        """A subscriber begins when all is over, and reads everything."""
        late = [MemberOwner(self, LATE, member) for member in range(MEMBERS)]
        for owner in late:
            self.owners[LATE, owner.member] = owner
            self.open(owner, f"late{owner.member}")
        for _ in range(150):
            owner = self.random.choice(late)
            owner.arrive(self.random.randint(1, 20))
            self.fetch(owner)
            self.finish(owner)
            owner.commit()
        for _ in range(30):
            for owner in self.owners.values():  # the others pass by what it hands over
                owner.arrive(1_000)
                self.fetch(owner)
                self.finish(owner)
                owner.commit()

    def verdict(self) -> None:
        for group in (*GROUPS, LATE):
            for member in range(MEMBERS):
                owner = self.owners[group, member]
                assert owner.queue.messages == 0
                assert owner.position == len(self.logs[member])
            for unit in UNITS:
                done = self.completed[group, unit]
                refused = self.refused[group, unit]
                assert not set(refused) & set(self.acked[unit]), "refused, though it was answered"
                assert set(self.acked[unit]) <= set(done), "lost"
                assert set(done) == set(self.order[unit])
        for unit in UNITS:
            g, h, late = (set(self.refused[group, unit]) for group in (*GROUPS, LATE))
            assert g == h == late, "subscribers disagree on what is refused"
            self.seen["refused"] += len(g)
