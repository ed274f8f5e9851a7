"""What the bench of Spark materializes, and how its figures come about."""

import time

import orjson

from bench.spark.program import Watch
from bench.spark.records import COLUMNS, STREAMS, Records, record
from bench.spark.writers import copied


def test_each_record_is_a_row_of_its_own_and_in_order_per_stream() -> None:
    messages = list(Records(2 * STREAMS).messages)
    bodies = [orjson.loads(value) for _, value in messages]
    rows = [tuple(body["changes"][0]["key"].values()) for body in bodies]
    assert len(set(rows)) == len(messages)
    last: dict[str, int] = {}
    for body in bodies:
        assert body["sequence"] == last.get(body["stream"], 0) + 1
        last[body["stream"]] = body["sequence"]


def test_the_plain_writers_make_the_same_row_of_it() -> None:
    _, value = record(7, 1.5)
    (row,) = copied([value])
    (change,) = orjson.loads(value)["changes"]
    assert dict(zip(COLUMNS, row, strict=True)) == {**change["key"], **change["values"]}
    assert row[-1] == 1.5


def test_the_first_batch_does_not_count() -> None:
    watch = Watch(30)
    for count in (10, 0, 15, 5):
        assert not watch.done.is_set()
        watch.end(count, time.monotonic(), [0.0, time.time() - 1])
    result = watch.result()
    assert watch.done.is_set()
    assert (result["records"], result["all"], len(result["batches"])) == (20, 30, 3)
    assert all(latencies[0] >= 1000 for _, _, latencies in result["batches"])
