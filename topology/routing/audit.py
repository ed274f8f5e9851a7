"""Whether each message that a router consumed is where its rules send it, from the topics alone."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from topology.model.counted import counted
from topology.model.errors import Malformed
from topology.model.event import Message
from topology.model.printable import printable
from topology.routing.formats import Endpoint, Made
from topology.routing.rule_set import RuleSet

MOST_WRONGS = 1_000
"""Wrongs that are told one by one."""
Place = tuple[str, int, int]
"""Topic, partition and offset of a message that was consumed."""
TopicOf = Callable[[Made | Endpoint], str]
"""The topic of an endpoint."""


@dataclass(slots=True)
class RouteAudit:
    """What became of messages. Tell it of all that was sent, then of each partition's messages.

    Args:
        rules: version → its rules, of those that are known.
        topic_of: the topic that an endpoint reads.
        compacted: topics of which messages may be gone: nothing is said to be missing there.

    Attributes:
        consumed: messages.
        routed, unrouted, failed, parked: of them; away: what came of them may be compacted away.
        sent: topic → records that came of them.
        others: topic → records that came of sources of others.
        unchecked: messages that were not routed again, as no rules are known that did it.
        wrongs: what is not as it should be, of the first.
        wrong: how many there are.
    """

    rules: Mapping[int, RuleSet]
    topic_of: TopicOf
    compacted: Collection[str] = frozenset()
    consumed: int = 0
    routed: int = 0
    unrouted: int = 0
    failed: int = 0
    parked: int = 0
    away: int = 0
    sent: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    unchecked: Counter[int] = field(default_factory=Counter)
    wrongs: list[str] = field(default_factory=list)
    wrong: int = 0
    _strange: Counter[tuple[str, str]] = field(default_factory=Counter)
    _made: dict[Place, tuple[int, list[str]]] = field(default_factory=dict)
    _failed: Counter[Place] = field(default_factory=Counter)
    _aside: set[Place] = field(default_factory=set)
    _redriven: set[Place] = field(default_factory=set)

    def made(self, place: Place, topic: str, version: int, *, redriven: bool = False) -> None:
        """A record came of a message.

        Args:
            place: of the message.
            topic: that has the record.
            version: that it names.
            redriven: whether it was parked before, so that later ones may be of earlier versions.
        """
        if redriven:
            self._redriven.add(place)
        before, topics = self._made.setdefault(place, (version, []))
        if before != version:
            self._tell(place, f"is routed by rules {before} and by rules {version}")
        topics.append(topic)
        self.sent[topic] += 1

    def strange(self, topic: str, what: str) -> None:
        """A record of a topic is not as a router writes it."""
        self.wrong += 1
        self._strange[topic, what] += 1

    def refused(self, place: Place) -> None:
        """A record in the malformed topic came of a message, which is at a place."""
        self._failed[place] += 1

    def set_aside(self, place: Place) -> None:
        """The message at a place is parked; one that went on since is routed."""
        self._aside.add(place)

    def partition(self, messages: Iterable[Message], last: int = 0, *, parks: bool = False) -> None:
        """Look at what was consumed of a partition, in order and without a break.

        Args:
            messages: they.
            last: the version that its position names, 0 if none.
            parks: whether one may have been routed later, by a later version.
        """
        version, waiting = 0, list[Message]()
        for message in messages:
            self.consumed += 1
            place = message.topic, message.partition, message.offset
            found = self._made.pop(place, None)
            failed = self._failed.pop(place, 0)
            if failed > 1 or (failed and found):
                self._tell(place, f"failed {failed} times, and was routed {found is not None:d}")
            if found is None:
                self.failed += failed > 0
                aside = not failed and place in self._aside
                self.parked += aside
                if not failed and not aside:
                    waiting.append(message)
                continue
            self.routed += 1
            if place in self._redriven:
                self._with(message, *found)
                continue
            if found[0] < version:
                self._tell(place, f"is routed by rules {found[0]}, behind rules {version}")
            for each in waiting:
                self._without(each, version, max(last, found[0]) if parks else found[0])
            waiting.clear()
            version = found[0]
            self._with(message, *found)
        for each in waiting:
            self._without(each, version, max(version, last))

    def left(self) -> None:
        """All partitions were looked at: what came of other messages is wrong."""
        for place, (_, topics) in self._made.items():
            if place[0] in self.compacted:  # it is gone; that it was consumed is seen by this
                self.consumed += 1
                self.routed += 1
            else:
                has = ", ".join(topics)
                self._tell(place, f"is no message that was consumed, but {has} has it")
        for place in self._failed:
            if place[0] in self.compacted:
                self.consumed += 1
                self.failed += 1
            else:
                self._tell(place, "is no message that was consumed, but it failed")

    def lines(self) -> Iterator[str]:
        """What was found, for people."""
        yield (
            f"{self.consumed:,} messages consumed: {self.routed:,} routed, "
            f"{self.unrouted:,} without a destination, {self.failed:,} failed"
            + (f", {self.parked:,} parked" if self.parked else "")
            + (f", {self.away:,} perhaps compacted away" if self.away else "")
        )
        for topic in sorted({*self.sent, *self.others}):
            others = f", and {self.others[topic]:,} of others" if topic in self.others else ""
            yield f"  {printable(topic)}: {self.sent[topic]:,}{others}"
        if self.compacted:
            topics = ", ".join(map(printable, sorted(self.compacted)))
            yield f"compacted, so that nothing is said to be missing, or counted, there: {topics}"
        for version, count in sorted(self.unchecked.items()):
            yield f"not routed again: {count:,} messages, as rules {version} are not given"
        for (topic, what), count in sorted(self._strange.items()):
            yield f"WRONG: {counted(count, 'record')} of {printable(topic)} {what}"
        yield from (f"WRONG: {each}" for each in self.wrongs)
        if more := self.wrong - len(self.wrongs) - self._strange.total():
            yield f"WRONG: {more:,} more"

    def _with(self, message: Message, version: int, topics: list[str]) -> None:
        place = message.topic, message.partition, message.offset
        rules = self.rules.get(version)
        if rules is None:
            self.unchecked[version] += 1
            return
        expected = self._expected(rules, message)
        if expected is None:
            self._tell(place, f"fails by rules {version}, but is in {', '.join(topics)}")
            return
        found = Counter(topics)
        for topic in sorted(expected.keys() | found.keys()):
            times, wanted = found[topic], expected[topic]
            if times == wanted or (times < wanted and topic in self.compacted):
                continue
            if not times:
                self._tell(place, f"is missing in {topic}, to which rules {version} send it")
            elif not wanted:
                self._tell(place, f"is in {topic}, to which rules {version} do not send it")
            else:
                by = f"to which rules {version} send it {counted(wanted, 'time')}"
                self._tell(place, f"is {times} times in {topic}, {by}")

    def _without(self, message: Message, first: int, last: int) -> None:
        """A message of which nothing came: rules from `first` to `last` may have routed it."""
        self.unrouted += 1
        for number, rules in self.rules.items():
            if first <= number <= last and (made := self._expected(rules, message)) is not None:
                if not made:
                    return
                if made.keys() <= {*self.compacted}:
                    self.unrouted -= 1
                    self.away += 1
                    return
        if {first or last, last} - self.rules.keys():
            self.unchecked[last] += 1
            return
        self.unrouted -= 1
        place = message.topic, message.partition, message.offset
        self._tell(place, f"is nowhere, though rules {last} send it somewhere, or refuse it")

    def _expected(self, rules: RuleSet, message: Message) -> Counter[str] | None:
        """Topic → how often it has it by some rules; None if it fails."""
        routing = rules.route(message)
        try:
            made = rules.make(routing)
        except Malformed:
            return None
        return None if routing.reason is not None else Counter(map(self.topic_of, made))

    def _tell(self, place: Place, what: str) -> None:
        self.wrong += 1
        if len(self.wrongs) < MOST_WRONGS:
            topic, partition, offset = place
            self.wrongs.append(f"{printable(topic)}/{partition}/{offset} {printable(what, 400)}")
