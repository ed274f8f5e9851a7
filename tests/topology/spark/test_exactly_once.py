"""A driver that dies at any step of any batch: outputs, tables and counts are as if it had not.

In one process, with what Spark does around the processor played; `test_live.py` kills real ones.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.sinks import Sink, open_sink
from tests.examples import some
from tests.topology.spark.disorder import disorder, encoded
from tests.topology.spark.fake_spark import FakeSpark
from tests.topology.spark.shops import topology
from topology.model.event import Record
from topology.spark.batches import Batches
from topology.spark.clock import BatchClock, Ends
from topology.spark.codec import OutgoingRecord, encode_outcome
from topology.spark.processor import WATERMARK
from topology.spark.reference import refer

NOW = 1_000_000_000_000
REFERENCE = refer(topology)
LIMIT = 30


class Killed(BaseException):
    """The driver is gone: nothing behind this is done."""


class Driver:
    """A driver's surroundings, which outlive it: checkpoint, broker, read store, input.

    fates: the steps at which it dies, counted over all that it does; a step may be before or behind
    what it makes durable.
    """

    def __init__(self, messages: Sequence[Record], sink: Sink, fates: set[int]) -> None:
        self.messages, self.sink, self.fates = messages, sink, fates
        self.spark = FakeSpark(topology, REFERENCE)
        self.committed, self.version = -1, self.spark.snapshot()
        self.notes: dict[int, str] = {}
        self.read: list[int] = [0]
        self.noted: tuple[int, dict[str, dict[str, int]]] = (-1, {})
        self.offsets = -1
        self.topics: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self.steps = self.kills = 0

    def step(self) -> None:
        """Die here, perhaps."""
        self.steps += 1
        if self.steps in self.fates:
            self.kills += 1
            raise Killed

    # What the driver does with its surroundings.

    def counts(self) -> tuple[int, dict[str, dict[str, int]], int]:
        return self.noted[0], orjson.loads(orjson.dumps(self.noted[1])), 0

    def note_removed(self, topology: object) -> None: ...

    def note_counts(self, batch: int, turn: int, counts: dict[str, dict[str, int]]) -> None:
        self.step()
        self.noted = batch, orjson.loads(orjson.dumps(counts))
        self.step()

    def write(
        self, query: str, known: tuple[int, int], records: Sequence[OutgoingRecord], ends: Ends
    ) -> None:
        batch, _ = known
        if batch <= self.offsets:
            return
        self.step()
        for sent in records:
            self.topics[sent.topic].append((sent.key, sent.value, tuple(sent.headers)))
        self.offsets = batch
        self.step()

    def progress(self) -> Any:
        return self.sink.progress()

    def last_batch(self, query: str) -> Any:
        return self.sink.last_batch(query)

    def apply(self, records: Any, batch: Any) -> Any:
        self.step()
        applied = self.sink.apply(records, batch)
        self.step()
        return applied

    # What Spark does.

    def plan(self, number: int) -> None:
        """Note a batch: where it ends, and when it is made."""
        start = self.read[number]
        end = min(len(self.messages), start + LIMIT)
        metadata = {"batchTimestampMs": NOW + 1_500 * number}
        ends = {"in": {"0": end}}
        self.notes[number] = "v1\n{}\n{}".format(
            *(orjson.dumps(x).decode() for x in (metadata, ends))
        )
        self.read.append(end)

    def run(self, batches: int) -> None:
        """Drivers, one after the other, until so many batches are done."""
        while self.committed < batches - 1:
            self.spark.restore(self.version)
            clock = BatchClock(self.notes.get, lambda batch: LIMIT)
            driver = Batches(topology, self, clock, self, self, topics=True)  # type: ignore[arg-type]
            try:
                while self.committed < batches - 1:
                    number = self.committed + 1
                    if number not in self.notes:
                        self.plan(number)
                    driver(self.frame(number), number)
                    self.step()
                    self.committed, self.version = number, self.spark.snapshot()
            except Killed:
                continue

    def frame(self, number: int) -> Any:
        properties = {"sql.streaming.queryId": "q"}

        def arrow() -> pa.Table:
            records = self.messages[self.read[number] : self.read[number + 1]]
            watermark = properties[WATERMARK]
            found = self.spark.batch(
                records, NOW + 1_500 * number, int(watermark) if watermark else None
            )
            self.step()
            return pa.table({"packed": [encode_outcome(outcome) for outcome in found]})

        context = SimpleNamespace(
            getLocalProperty=properties.get, setLocalProperty=properties.__setitem__
        )
        return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=context), toArrow=arrow)


def driven(messages: Sequence[Record], folder: Path, fates: set[int], batches: int) -> Any:
    """((kills, steps), topics, counts, tables) of a run."""
    with open_sink(f"sqlite:///{folder}/read.db") as sink:
        driver = Driver(messages, sink, fates)
        driver.run(batches)
        tables = {view: list(sink.rows(view)) for view in topology.views if _has(sink, view)}
    by_key: dict[Any, list[Any]] = defaultdict(list)
    for topic, sent in driver.topics.items():
        for key, value, headers in sent:
            if topic != topology.errors_topic:
                by_key[topic, key].append((value, headers))
    outputs = {view.output for view in topology.views.values()}
    # Topics of one partition have no order between streams, nor between two halves of a batch.
    ordered = {
        at: sent if at[0] in outputs else sorted(sent, key=repr) for at, sent in by_key.items()
    }
    return (driver.kills, driver.steps), ordered, driver.noted[1], tables


def _has(sink: Sink, table: str) -> bool:
    return any(place.topic == f"{topology.name}.{table}" for place in sink.progress())


@settings(max_examples=some(8))
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(20, 70),
    fates=st.sets(st.integers(1, 60), min_size=1, max_size=12),
)
def test_kills_at_any_step_change_nothing(seed: int, size: int, fates: set[int]) -> None:
    found, _ = disorder(seed, size)
    messages = [
        Record(f"shop.{topic}", 0, offset, stream.encode(), encoded(body), (), NOW + offset)
        for offset, (topic, stream, body) in enumerate(found)
    ]
    batches = 20 + len(messages) // LIMIT
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        _, *expected = driven(messages, Path(one), set(), batches)
        (kills, steps), *ours = driven(messages, Path(other), fates, batches)
    assert kills == len([fate for fate in fates if fate <= steps])
    assert ours == expected
    assert expected[0]
