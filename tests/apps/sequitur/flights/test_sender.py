import time
from typing import Any

import numpy as np
import pandas as pd

from sequitur.flights.network import Delivery
from sequitur.flights.sender import Sender


class FakeProducer:
    """Acknowledges on poll; `fails` is the number of the record that is refused."""

    def __init__(self, fails: int | None = None, full: int = 0) -> None:
        self.records: list[dict[str, Any]] = []
        self.fails = fails
        self.full = full
        self.waiting: list[tuple[Any, Any]] = []
        self.now = 0.0

    def clock(self) -> float:
        """Another 10 ms have passed."""
        self.now += 0.01
        return self.now

    def produce(self, topic: str, **record: Any) -> None:
        if self.full:
            self.full -= 1
            raise BufferError
        error = "refused" if len(self.records) == self.fails else None
        self.records.append({"topic": topic, "wall": self.now, **record})
        self.waiting.append((record["on_delivery"], error))

    def poll(self, timeout: float) -> int:
        waiting, self.waiting = self.waiting, []
        for acknowledge, error in waiting:
            acknowledge(error, None)
        return len(waiting)

    def flush(self, timeout: float) -> int:
        return self.poll(timeout) * 0


def delivery(*at: float) -> Delivery:
    count = len(at)
    arrivals = pd.DataFrame(
        {"at": at, "index": range(count), "station": ["EWR-A"] * count, "copy": [False] * count}
    )
    return Delivery(arrivals, np.zeros(count, dtype=bool))


def messages(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def test_it_keeps_to_the_timeline_and_stamps_it() -> None:
    producer = FakeProducer()
    producer.now = begin = 1_000.0
    timeline = delivery(0.0, 0.1, 0.1, 0.3)
    sender = Sender(producer, "topic", messages(4), timeline, producer.clock)
    sender.run()
    assert sender.sent == sender.total == 4
    assert [r["value"] for r in producer.records] == messages(4)
    assert {r["topic"] for r in producer.records} == {"topic"}
    assert {r["key"] for r in producer.records} == {b"EWR-A"}
    stamps = [r["timestamp"] for r in producer.records]
    assert [round(s - begin * 1000, -1) for s in stamps] == [10, 110, 110, 310]
    assert all(r["wall"] * 1000 >= r["timestamp"] for r in producer.records)


def test_a_sender_that_falls_behind_moves_the_timeline_back() -> None:
    hours = iter([0.0, 0.0, 3600.0, 3600.4])
    producer = FakeProducer()
    clock = lambda: next(hours)  # noqa: E731
    Sender(producer, "topic", messages(3), delivery(0.0, 0.1, 0.5), clock).run()
    stamps = [r["timestamp"] for r in producer.records]
    assert stamps[0] == 0
    assert 3_599_000 < stamps[1] <= 3_600_000
    assert abs(stamps[2] - stamps[1] - 400) <= 1


def test_a_full_queue_is_waited_for() -> None:
    producer = FakeProducer(full=3)
    sender = Sender(producer, "topic", messages(2), delivery(0.0, 0.0))
    sender.run()
    assert sender.sent == 2


def test_stop_ends_it_early() -> None:
    sender = Sender(FakeProducer(), "topic", messages(2), delivery(0.0, 60.0))
    sender.start()
    deadline = time.time() + 60
    while not sender.sent and time.time() < deadline:
        time.sleep(0.01)
    sender.stop()
    assert not sender.running
    assert sender.sent == 1
    assert sender.error is None


def test_a_refused_message_ends_it_with_the_reason() -> None:
    sender = Sender(FakeProducer(fails=1), "topic", messages(3), delivery(0.0, 0.05, 60.0))
    sender.start()
    deadline = time.time() + 60
    while sender.running and time.time() < deadline:
        time.sleep(0.01)
    assert not sender.running
    assert sender.error == "refused"
    assert sender.sent == 1
