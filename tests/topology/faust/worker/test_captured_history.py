"""A stream is rebuilt by what a replay log has of its input, where the topic's head is gone."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import TopicPartition

from stores.db.engines import open_engine
from stores.replay import CapturedMessage, ReplayLog
from tests.topology.engine.rebuilding import Rebuilding, orders, read_store, rebuilding
from topology import Record
from topology.engine.commit_unit import CommitUnit
from topology.faust.worker.captured_history import CapturedHistory
from topology.view_rebuild.history import Histories, History
from topology.view_rebuild.stream_rebuild import rebuild

GONE = 3
"""Offsets of the input that retention has taken."""


class Shortened(Rebuilding):
    """A partition whose input has lost its head, which may be in a log."""

    def __init__(self, url: str, *, keyed: bool) -> None:
        super().__init__(rebuilding(keyed=keyed))
        self.url = url

    def history(self, stream: str) -> History:
        view = self.view()
        histories = Histories(view, [stream])
        at = TopicPartition(view.view.of.by_stream, 0)
        log = CapturedHistory(self.url)
        whole = asyncio.run(log.read(histories, view.view.of, at, GONE))
        histories.shortened(input=not whole, output=False)
        for record in self.inputs[GONE : self.position]:
            histories.message(record)
        for number, out in enumerate(self.written["shop.board"]):
            histories.output(Record("shop.board", 0, number, out.key, out.value, out.headers))
        return histories.streams[stream]


def captured(records: list[Record], topic: str) -> list[CapturedMessage]:
    return [
        CapturedMessage(
            topic, each.partition, each.offset, each.value, each.timestamp, each.key,
            tuple(each.headers),
        )
        for each in records
    ]  # fmt: skip


def late_by_one(url: str, *, keyed: bool = True) -> Shortened:
    """2 of stream a was given up, and comes."""
    partition = Shortened(url, keyed=keyed)
    partition.feed(orders(("a", 1), ("b", 1), ("a", 3), ("a", 4)))
    partition.advance(3000)
    partition.feed(orders(("a", 2)))
    assert partition.view().rebuilds == ["a"]
    return partition


def reasons(partition: Rebuilding) -> list[bytes]:
    return [dict(late.headers)["sequitur-reason"] for late in partition.written["shop.late"]]


@pytest.fixture
def log(tmp_path: Path) -> ReplayLog:
    made = ReplayLog(open_engine(f"sqlite:///{tmp_path}/log.db"))
    made.create()
    return made


def _url(log: ReplayLog) -> str:
    return str(log.engine.url)


def of_its_own_topic(log: ReplayLog, partition: Shortened) -> None:
    topic = partition.view().view.of.by_stream
    log.append(topic, captured(partition.inputs[:GONE], topic), {0: GONE})


def of_the_sources_topics(log: ReplayLog, partition: Shortened) -> None:
    (topic,) = partition.view().view.of.topics
    assert topic != partition.view().view.of.by_stream
    log.append(topic, captured(partition.inputs, topic), {0: 5})


@pytest.mark.parametrize(
    ("keyed", "kept"),
    [(True, of_its_own_topic), (False, of_its_own_topic), (False, of_the_sources_topics)],
)
def test_a_stream_whose_head_is_in_the_log_is_rebuilt(
    log: ReplayLog, keyed: bool, kept: Callable[[ReplayLog, Shortened], None]
) -> None:
    partition = late_by_one(_url(log), keyed=keyed)
    kept(log, partition)
    partition.settle()
    assert reasons(partition) == []
    rows = read_store(partition)
    assert rows["board", b'{"id":"a"}'] == {"trail": "[1, 2, 3, 4]"}
    counts = partition.view().state.counts
    assert (counts.late, counts.processed) == (0, 5)


@pytest.mark.parametrize("lost", [None, {0: (0, 1)}])
def test_what_the_log_lacks_too_is_said_of_the_late_event(
    log: ReplayLog, lost: dict[int, tuple[int, int]] | None
) -> None:
    partition = late_by_one(_url(log))
    topic = partition.view().view.of.by_stream
    if lost:  # it went before it was captured
        log.append(topic, captured(partition.inputs[1:GONE], topic), {0: GONE}, lost=lost)
    partition.settle()
    (reason,) = reasons(partition)
    assert b"no longer all there" in reason
    assert read_store(partition)["board", b'{"id":"a"}'] == {"trail": "[1, 3, 4]"}


def test_what_was_captured_before_a_stream_began_anew_is_not_of_it(log: ReplayLog) -> None:
    partition = late_by_one(_url(log))
    history = Histories(partition.view(), ["a"])
    history.streams["a"] = History(4, 10, anew=2)
    for record in partition.inputs:
        history.captured(record)
    assert history.streams["a"].events == {}


def test_what_a_database_says_of_a_log_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "log.db").write_bytes(b"no database at all" * 100)
    partition = late_by_one(f"sqlite:///{tmp_path}/log.db")
    with pytest.raises(OSError, match="not a database"):
        rebuild(partition.view(), "a", partition.history("a"), CommitUnit("orders", 0, now=0))


def test_a_log_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    partition = late_by_one(f"sqlite:///{tmp_path}/none.db")
    with pytest.raises(OSError, match="there is no such file"):
        rebuild(partition.view(), "a", partition.history("a"), CommitUnit("orders", 0, now=0))
    assert not (tmp_path / "none.db").exists()
