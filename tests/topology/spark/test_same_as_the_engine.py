"""What runs on Spark does what the engine does elsewhere, message for message, in any batches.

With what Spark does around the processor played; `test_live.py` compares Spark with Faust.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.spark.disorder import by_stream, disorder, encoded
from tests.topology.spark.fake_spark import FakeSpark
from tests.topology.spark.shops import topology
from topology import TopologyTestDriver
from topology.model.event import Record
from topology.spark.reference import refer

NOW = 1_000_000_000_000
REFERENCE = refer(topology)


def as_bag(found: dict[bytes | None, list[Any]]) -> Counter[Any]:
    return Counter(
        (key, value, tuple(headers)) for key, sent in found.items() for value, headers in sent
    )


class Copies:
    """The input's messages, and which of them are copies of one event.

    Which copy of an event is handled depends on where a batch ends, in every runtime: the first may
    be away for redelivery while the step that makes room for it takes in the second.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str, Any], int] = {}
        self._at: dict[tuple[str, int], int] = {}

    def add(self, record: Record, stream: str, body: Any) -> None:
        sequence = body.get("n") if isinstance(body, dict) else None
        first = self._first.setdefault((record.topic, stream, sequence), record.offset)
        self._at[record.topic, record.offset] = first if sequence is not None else record.offset

    def told(self, value: bytes) -> bytes:
        """An error report as if the first copy had failed, without what is the runtime's own."""
        report = orjson.loads(value)
        report.pop("traceback", None)
        report.pop("when", None)
        position = report["position"]
        position["offset"] = self._at[position["topic"], position["offset"]]
        if (body := report.get("value")) and body.startswith("{"):
            report["value"] = {k: v for k, v in orjson.loads(body).items() if k != "other"}
        return orjson.dumps(report)


@settings(max_examples=some(60))
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(0, 80),
    cuts=st.lists(st.integers(1, 25), max_size=12),
    waits=st.lists(st.sampled_from((0, 300, 1_100, 2_500, 7_000)), max_size=12),
)
def test_any_disorder_in_any_batches_comes_out_the_same(
    seed: int, size: int, cuts: list[int], waits: list[int]
) -> None:
    driver = TopologyTestDriver(topology, now=NOW)
    spark = FakeSpark(topology, REFERENCE, seed)
    offsets: dict[str, int] = defaultdict(int)
    copies = Copies()
    (messages, _), now = disorder(seed, size), NOW

    def advance(milliseconds: int) -> None:
        nonlocal now
        driver.advance(milliseconds / 1000)
        end = now + milliseconds
        while (due := spark.due) <= end:
            now = max(now, int(due))
            spark.batch([], now, watermark=now)
        now = end

    while messages:
        cut, wait = (cuts.pop() if cuts else 40), (waits.pop() if waits else 0)
        batch, messages = messages[:cut], messages[cut:]
        records: list[Record] = []
        for at, (name, stream, body) in enumerate(batch):
            topic, value = f"shop.{name}", encoded(body)
            # As they arrive one by one, however the driver's one partition and Spark see them.
            stamp = now + at
            driver.pipe(topic, value, key=stream, timestamp=stamp)
            records.append(Record(topic, 0, offsets[topic], stream.encode(), value, (), stamp))
            offsets[topic] += 1
            copies.add(records[-1], stream, body)
        spark.batch(records, now, watermark=None)
        advance(wait)
    advance(60_000)

    for view in topology.views:
        assert told(spark.counts.get(view, {})) == told(asdict(driver.counts(view))), view
    expected = by_stream({t: driver.read(t) for t in written(spark)})
    found = by_stream(spark.records)
    for each in topology.views.values():
        assert found.get(each.output, {}) == expected.get(each.output, {}), each.name
    for topic in written(spark) - {view.output for view in topology.views.values()}:
        ours, theirs = found.get(topic, {}), expected.get(topic, {})
        if topic == topology.errors_topic:
            ours, theirs = (
                {k: [(copies.told(v), h) for v, h in sent] for k, sent in each.items()}
                for each in (ours, theirs)
            )
        assert as_bag(ours) == as_bag(theirs), topic
    assert not any(spark.timers.values())


def told(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts above zero. Whether a duplicate is looked into depends on where a batch ends, in
    every runtime: if its event is handled in the same batch, nothing is left to compare it with."""
    return {what: n for what, n in counts.items() if n and what != "conflicts"}


def written(spark: FakeSpark) -> set[str]:
    outputs = {view.output for view in topology.views.values()}
    return {*spark.records, *outputs, *topology.side_topics, "shop.alerts"}
