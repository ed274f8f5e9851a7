"""Compare the topics that several views write to with what they should hold."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import orjson

from topology.declaration.view import View
from topology.engine.output.failure import HEALED, WITHOUT_ROW
from topology.engine.state.rows import split_redriven_key
from topology.model.origin_headers import IN_SEQUENCE
from topology.testing.simulation.fold import Expected
from topology.testing.simulation.log_partition import LogPartition
from topology.testing.simulation.schedule import Schedule
from topology.view_rebuild.stream_rebuild import PASSED_OVER

Key = tuple[str, bytes | None]
"""(topic, record key)."""


def hasty(view: View) -> bool:
    """Whether a view goes on after a time, which may be another after a crash."""
    return view.gap.skips or view.of.sequence.settles


class SharedTopics:
    """The side topics, and those that handlers send messages to.

    late: (view, stream) → the sequences in the late topic; too_late: those of it that were handled,
    and are late in their own time; late_records: how many are there. dead:
    the same of the dead topic, as often as they are there and were not put back; redriven: how many
    were. malformed, unknown: how many messages should be in those topics.
    """

    def __init__(self, run: Schedule) -> None:
        self.run = run
        self.topology = run.world.topology
        self.once = run.world.guarantee == "exactly_once"
        self.exact = self.once or not any(map(hasty, self.topology.views.values()))
        """Whether a record may come again only if it says the same."""
        self._rebuilds = any(view.late.rebuilds for view in self.topology.views.values())
        """Whether late events emit late what they have to."""
        views = self.topology.views.values()
        self._corrected = {hop for view in views if view.late.rebuilds for hop in view.hops}
        """Topics between views in which rebuilds correct what was sent."""
        self.malformed = self.unknown = 0
        self.late: dict[tuple[str, str], set[int]] = defaultdict(set)
        self.too_late: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.late_records: Counter[tuple[str, str]] = Counter()
        self.dead: dict[tuple[str, str], list[int]] = defaultdict(list)
        self.redriven: Counter[tuple[str, str]] = Counter()
        self._parked: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._failed: Counter[tuple[str, str, int]] = Counter()
        self._emits: dict[Key, list[list[Any]]] = defaultdict(list)
        self._wrong: list[str] = []
        settling = {view.name for view in self.topology.views.values() if view.of.sequence.settles}
        for partition in self._partitions(self.topology.late_topic):
            for key, _, _, headers in partition.committed():
                told = dict(headers)
                sequence = int(told["sequence"])
                if IN_SEQUENCE in told:
                    self.too_late[told["view"].decode(), (key or b"").decode()].append(sequence)
                    continue
                seen = self.late[told["view"].decode(), (key or b"").decode()]
                self.late_records[told["view"].decode(), (key or b"").decode()] += 1
                if sequence in seen and self.once and told["view"].decode() not in settling:
                    self._wrong.append(f"{self.topology.late_topic}: {key!r} {sequence} is twice")
                seen.add(sequence)

        put_back = set(self._put_back())
        for partition in self._partitions(self.topology.dead_topic):
            for at, out in enumerate(partition.records[: partition.end]):
                if out is None:
                    continue
                found = dict(out[3])
                where = found["view"].decode(), (out[0] or b"").decode()
                if (where[0], at) in put_back:
                    self.redriven[where] += 1
                else:
                    self.dead[where].append(int(found["sequence"]))
        for partition in self._partitions(self.topology.parked_topic):
            for _, value, _, _ in partition.committed():
                report = orjson.loads(value or b"")
                self._parked[report["view"], report["stream"]].append(report["sequence"])

    def parked_errors(self, view: View, stream: str, waiting: set[int]) -> list[str]:
        """Whether the parked topic tells of what is parked."""
        found = self._parked.pop((view.name, stream), [])
        if sorted(found) == sorted(waiting) if self.once else set(found) >= waiting:
            return []
        return [f"{view.name}: of {stream} {found} are told of as parked, not {sorted(waiting)}"]

    def expect(self, view: View, stream: str, expected: Expected) -> None:
        """Note what a stream in a view should add to the topics."""
        for sequence, attempts in expected.failed.items():
            self._failed[view.name, stream, sequence] += attempts
        if expected.emits:
            by_key: dict[Key, list[Any]] = defaultdict(list)
            for topic, key, value, headers in expected.emits:
                if topic in self._corrected:
                    continue  # a rebuild sends what has changed: what comes of it all is the same
                by_key[topic, key].append((value, headers))
            for where, records in by_key.items():
                self._emits[where].append(records)

    def errors(self) -> list[str]:
        """What is wrong, in words."""
        wrong, names = self._wrong, self.topology
        wrong += [f"{view}: stream {stream} is late, but never came" for view, stream in self.late]
        wrong += [f"{view}: stream {stream} is dead, but never came" for view, stream in self.dead]
        wrong += [f"{view}: stream {stream} is told of as parked" for view, stream in self._parked]
        numbers = {names.malformed_topic: self.malformed, names.unknown_topic: self.unknown}
        for topic, number in numbers.items():
            found = sum(len(partition.committed()) for partition in self._partitions(topic))
            if found != number if self.once else found < number:
                wrong.append(f"{topic} has {found} records, not {number}")
        return wrong + self._failure_errors() + self._emit_errors()

    def _partitions(self, topic: str) -> list[LogPartition]:
        found = self.run.world.log.partitions
        return [p for n in range(self.run.world.partitions) if (p := found.get((topic, n)))]

    def _put_back(self) -> Iterator[tuple[str, int]]:
        """(view, offset) of the dead events that views took back."""
        for (view, _), place in self.run.world.layout.changelogs.items():
            for key, _, _, _ in self.run.world.log.partition(place).committed():
                if (key or b"")[:1] == b"x":
                    yield view, split_redriven_key(key or b"")

    def _failure_errors(self) -> list[str]:
        found: Counter[tuple[str, str, int]] = Counter()
        for partition in self._partitions(self.topology.errors_topic):
            for _, value, _, _ in partition.committed():
                report = orjson.loads(value or b"")
                if report["done"] not in (PASSED_OVER, HEALED, WITHOUT_ROW):
                    found[report["view"], report["stream"], report["sequence"]] += 1
        wanted = self._failed
        if self.once:
            right = found == wanted
        else:
            right = found.keys() == wanted.keys() if self.exact else found.keys() >= wanted.keys()
        return [] if right else [f"{dict(found)} failed as logged, not {dict(wanted)}"]

    def _emit_errors(self) -> list[str]:
        """Under each key: in order if one stream of one view sends there, else all of them."""
        world, wanted, wrong = self.run.world, self._emits, []
        inputs = {topic for source in self.topology.sources.values() for topic in source.topics}
        fed = {topic for topic, _ in wanted} & inputs
        for topic, (key, value, _, headers) in self.run.arrivals if fed else ():
            if topic in fed:
                wanted[topic, key].append([(value, tuple(headers))])
        own = inputs - fed | world.layout.own
        found: dict[Key, list[Any]] = defaultdict(list)
        for (topic, _), partition in world.log.partitions.items():
            if topic not in own:
                for key, value, _, headers in partition.committed():
                    found[topic, key].append((value, tuple(headers)))
        for (topic, key), origins in wanted.items():
            records = found.pop((topic, key), [])
            if not self.once:
                said, want = set(records), {each for origin in origins for each in origin}
                right = said == want if self.exact else said >= want
            elif len(origins) == 1 and not self._rebuilds:
                right = records == origins[0]
            else:
                right = Counter(records) == Counter(each for one in origins for each in one)
            if not right:
                wrong.append(f"{topic}: key {key!r} has {records}, not {origins}")
        if self.exact:
            wrong += [f"{topic}: nothing is to be under key {key!r}" for topic, key in found]
        return wrong
