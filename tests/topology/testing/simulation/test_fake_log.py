"""FakeLog: what the simulator takes for Kafka."""

from random import Random

import pytest

from topology.engine.commit_unit import Out
from topology.testing.simulation.disk import FakeTable
from topology.testing.simulation.fake_log import FakeLog, Fenced

HERE, THERE = ("a", 0), ("b", 0)


def record(value: bytes | None, key: bytes | None = None) -> Out:
    return key, value, 0, []


def values(log: FakeLog, place: tuple[str, int] = HERE) -> list[bytes | None]:
    return [out[1] for out in log.partition(place).committed()]


def test_records_outside_of_transactions_are_seen_at_once() -> None:
    log = FakeLog(now=7)
    assert log.append(HERE, [record(b"1"), record(b"2")]) == 2
    partition = log.partition(HERE)
    assert values(log) == [b"1", b"2"]
    assert partition.appended == [7, 7]
    assert partition.read(0, 1) == ([0], 1)
    assert partition.read(1, 9) == ([1], 2)


def test_an_open_transaction_hides_itself_and_what_follows() -> None:
    log = FakeLog()
    producer = log.producer("p")
    log.append(HERE, [record(b"1")])
    producer.begin()
    assert producer.send(HERE, [record(b"2")]) == 2
    log.append(HERE, [record(b"3")])
    assert (values(log), log.partition(HERE).end) == ([b"1"], 1)
    producer.commit()
    log.finish("p")
    assert (values(log), log.partition(HERE).end) == ([b"1", b"2", b"3"], 4)


def test_an_aborted_transaction_leaves_nothing_but_offsets() -> None:
    log = FakeLog()
    producer = log.producer("p")
    producer.begin()
    producer.send(HERE, [record(b"1")])
    producer.send_offsets([(THERE, 5)])
    log.producer("p")
    assert (values(log), log.partition(HERE).end, log.offsets) == ([], 2, {})
    log.append(HERE, [record(b"2")])
    assert log.partition(HERE).read(0, 9) == ([2], 3)


@pytest.mark.parametrize("expires", [False, True])
def test_an_older_producer_is_fenced_from_everything(expires: bool) -> None:
    log = FakeLog()
    old = log.producer("p")
    old.begin()
    if expires:
        log.expire("p")
    else:
        log.producer("p")
    for work in (
        old.begin,
        old.commit,
        lambda: old.send(HERE, [record(b"1")]),
        lambda: old.send_offsets([(THERE, 5)]),
    ):
        with pytest.raises(Fenced):
            work()
    assert log.partition(HERE).records == []
    log.producer("other").begin()


def test_a_commit_that_is_decided_outlives_its_producer() -> None:
    log = FakeLog()
    producer = log.producer("p")
    producer.begin()
    producer.send(HERE, [record(b"1")])
    producer.send_offsets([(THERE, 5)])
    producer.commit()
    log.producer("p")
    assert (values(log), log.offsets, log.unfinished()) == ([b"1"], {THERE: 5}, [])


def test_a_commit_shows_in_one_partition_after_the_other() -> None:
    seen = set()
    for seed in range(40):
        log = FakeLog(Random(seed))
        producer = log.producer("p")
        producer.begin()
        producer.send(HERE, [record(b"1")])
        producer.send(THERE, [record(b"2")])
        producer.send_offsets([(THERE, 5)])
        producer.commit()
        seen.add((len(values(log)), len(values(log, THERE)), len(log.offsets)))
        while log.unfinished():
            assert log.decided("p")
            log.settle("p", 1)
        assert (values(log), values(log, THERE), log.offsets) == ([b"1"], [b"2"], {THERE: 5})
    assert {(0, 0, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0), (1, 1, 1)} <= seen


def test_a_transaction_that_wrote_nothing_leaves_no_trace() -> None:
    log = FakeLog()
    producer = log.producer("p")
    producer.begin()
    producer.commit()
    assert log.unfinished() == []
    with pytest.raises(RuntimeError, match="begun no transaction"):
        producer.commit()


def test_compaction_keeps_the_last_record_of_each_key() -> None:
    log = FakeLog()
    keys = (b"a", b"b", b"a", b"c", b"b")
    log.append(HERE, [record(b"%d" % at, key) for at, key in enumerate(keys)])
    log.append(HERE, [record(None, b"c"), record(b"6", b"d")])
    producer = log.producer("p")
    producer.begin()
    producer.send(HERE, [record(b"7", b"d")])
    partition = log.partition(HERE)
    partition.compact()
    assert values(log) == [b"2", b"4", None, b"6"]
    assert partition.read(0, 2) == ([2, 4], 5)
    partition.compact(tombstones=True)
    assert values(log) == [b"2", b"4", b"6"]
    log.finish("p")
    assert partition.end == 9


def test_a_table_loses_its_last_writes_whole_and_with_their_offset() -> None:
    table = FakeTable()
    table.write([(b"a", b"1")], 1)
    table.flush()
    table.write([(b"a", b"2"), (b"b", b"2")], 2)
    table.write([(b"a", None)], 3)
    assert table.unsafe == 2
    table.lose(1)
    assert (table.rows, table.offset, table.unsafe) == ({b"a": b"2", b"b": b"2"}, 2, 1)
    table.lose(1)
    assert (table.rows, table.offset, table.unsafe) == ({b"a": b"1"}, 1, 0)
    table.clear()
    assert (table.rows, table.offset, table.unsafe) == ({}, None, 0)
