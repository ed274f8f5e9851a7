"""A console's look at a side topic reads on from the last one, and says what nobody looked at."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

from aiokafka import TopicPartition

from topology import Record
from topology.faust.inspection.durable import Span, Tail
from topology.faust.inspection.kept_folds import KeptFolds
from topology.faust.inspection.side_topics import SideTopic, _gone_on_with


class Topic:
    """What a side topic has, and which offsets were read of it one by one."""

    now = 5

    def __init__(self, most: int) -> None:
        self.first, self.records_, self._most = 0, list[Record](), most
        self.read = list[int]()

    def write(self, *reasons: str) -> None:
        for reason in reasons:
            at, headers = len(self.records_), (("sequitur-reason", reason.encode()),)
            self.records_.append(Record("shop.malformed", 0, at, None, b"?", headers, at))

    async def span(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Span]:
        return dict.fromkeys(partitions, Span(self.first, len(self.records_)))

    async def end_of(self, topic: str) -> Tail:
        start = max(self.first, len(self.records_) - self._most)
        found = self.records_[start:]
        return Tail(list(found), len(found), "cut" if start > self.first else None)

    async def records(self, at: TopicPartition, start: int, end: int) -> AsyncIterator[Record]:
        for record in self.records_[start:end]:
            self.read.append(record.offset)
            yield record


def counts(found: SideTopic) -> Iterator[tuple[str, int]]:
    return ((group.reason, group.count) for group in found.groups)


async def test_what_was_counted_once_is_not_read_again() -> None:
    topic: Any = Topic(most=100)
    kept = KeptFolds()

    async def look() -> SideTopic:
        return await _gone_on_with(topic, kept, "malformed", "shop.malformed", 1)

    topic.write("no 1", "no 2", "odd")
    first = await look()
    assert (first.count, [*counts(first)]) == (3, [("no …", 2), ("odd", 1)])
    topic.write("odd", "odd")
    second = await look()
    assert (second.count, second.unseen, topic.read) == (5, [], [3, 4])
    assert [*counts(second)] == [("odd", 3), ("no …", 2)]
    assert [*counts(first)] == [("no …", 2), ("odd", 1)], "a page compares it with the next one"
    assert [each.offset for each in second.records] == [4]
    topic.first = 3
    third = await look()
    assert [*counts(third)] == [("odd", 2)], "what retention has deleted is not counted"
    topic.records_.clear()
    topic.first = 0
    assert (await look()).count == 0, "the topic was made anew"


async def test_what_is_before_the_end_that_was_read_is_said_not_to_be_looked_at() -> None:
    topic: Any = Topic(most=2)
    topic.write(*"abcde")
    kept = KeptFolds()
    found = await _gone_on_with(topic, kept, "malformed", "shop.malformed", 1)
    assert found.count == 2
    assert found.unseen == [
        "only the last 2 offsets of shop.malformed were read; --scan N reads more"
    ]
    assert topic.read == []
