"""What Spark does around the processor, in one process and on a clock that the test moves."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from random import Random
from types import SimpleNamespace
from typing import Any

from topology import Topology
from topology.model.event import Record
from topology.spark.codec import Outcome, OutgoingRecord, decode_outcome
from topology.spark.inspecting import inspected
from topology.spark.processor import StreamProcessor
from topology.spark.reference import Reference


class FakeState:
    """ValueState and MapState of the key that Spark has set; it holds what a state store would."""

    def __init__(self, spark: "FakeSpark") -> None:
        self._spark = spark
        self.values: dict[str, Any] = {}
        self.maps: defaultdict[str, dict[Any, Any]] = defaultdict(dict)

    @property
    def _map(self) -> dict[Any, Any]:
        return self.maps[self._spark.place]

    def get(self) -> Any:
        return self.values.get(self._spark.place)

    def update(self, value: Any) -> None:
        self.values[self._spark.place] = value

    def clear(self) -> None:
        del self.values[self._spark.place]

    def iterator(self) -> Iterator[Any]:
        return iter(list(self._map.items()))

    def updateValue(self, key: Any, value: Any) -> None:
        self._map[key] = value

    def removeKey(self, key: Any) -> None:
        del self._map[key]


class FakeSpark:
    """Runs a topology batch by batch. records: what was written, in order."""

    def __init__(self, topology: Topology, reference: Reference, seed: int = 0) -> None:
        self.topology = topology
        self.place = ""
        self.rows, self.more = FakeState(self), FakeState(self)
        self.timers: dict[str, set[int]] = defaultdict(set)
        self.outcomes: list[Outcome] = []
        self._reference = reference
        self._chance = Random(seed)

    # What the processor asks of its handle.

    def getValueState(self, name: str, schema: str) -> FakeState:
        return self.rows

    def getMapState(self, name: str, key: str, value: str) -> FakeState:
        return self.more

    def registerTimer(self, at: int) -> None:
        self.timers[self.place].add(at)

    def deleteTimer(self, at: int) -> None:
        self.timers[self.place].remove(at)

    # What a query does.

    @property
    def due(self) -> float:
        """The earliest timer (ms)."""
        return min((min(found) for found in self.timers.values() if found), default=float("inf"))

    def batch(
        self, records: Sequence[Record], now: int, watermark: int | None
    ) -> Sequence[Outcome]:
        """Run a batch, of which each stream's rows come in any order; what it comes to."""
        done = len(self.outcomes)
        processor = StreamProcessor(self._reference)
        processor.init(self)  # type: ignore[arg-type]
        processor._topology, processor._watermark = self.topology, watermark
        times: Any = SimpleNamespace(getCurrentProcessingTimeInMs=lambda: now)
        shuffled: dict[str, list[Any]] = defaultdict(list)
        cut = self._chance.randint(0, len(records))
        for part in (records[:cut], records[cut:]):
            for place, packed in inspected(self.topology, part):
                shuffled[place].append(SimpleNamespace(packed=packed))
        places = list(shuffled)
        self._chance.shuffle(places)
        for self.place in places:
            rows = shuffled[self.place]
            self._chance.shuffle(rows)
            self._take(processor.handleInputRows((self.place,), iter(rows), times))
        expired = [(at, p) for p, found in self.timers.items() for at in found if at <= now]
        for at, self.place in expired:
            info: Any = SimpleNamespace(getExpiryTimeInMs=lambda at=at: at)
            self._take(processor.handleExpiredTimer((self.place,), times, info))
            self.timers[self.place].remove(at)
        assert all(len(found) <= 1 for found in self.timers.values()), self.timers
        return self.outcomes[done:]

    def snapshot(self) -> Any:
        """All state, as a version of a state store."""
        return deepcopy((self.rows.values, self.more.maps, self.timers))

    def restore(self, snapshot: Any) -> None:
        """Go back to a version."""
        self.rows.values, self.more.maps, self.timers = deepcopy(snapshot)

    def _take(self, rows: Iterable[Any]) -> None:
        self.outcomes += [decode_outcome(row.packed) for row in rows]

    @property
    def records(self) -> dict[str, list[OutgoingRecord]]:
        """Topic → what was written to it, in order."""
        found: dict[str, list[OutgoingRecord]] = defaultdict(list)
        for outcome in self.outcomes:
            for sent in outcome.records:
                found[sent.topic].append(sent)
        return found

    @property
    def counts(self) -> dict[str, dict[str, int]]:
        """The counts of all batches, zeros left out."""
        total = Outcome()
        for outcome in self.outcomes:
            for name, counts in outcome.counts.items():
                total.count(name, counts)
        return {
            name: {what: n for what, n in counts.items() if n}
            for name, counts in total.counts.items()
        }
