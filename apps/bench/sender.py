"""Send events at a steady rate, each with the time at which it was sent.

`python -m bench.sender BROKER TOPIC RATE SECONDS STREAMS`; the field `at` is in ns.
"""

import sys
import time

from confluent_kafka import Producer

TICK = 0.001
"""Seconds between two looks at what is due."""


def send(broker: str, topic: str, rate: int, seconds: float, streams: int) -> int:
    """Send `rate` events a second, the streams in turn, and return how many there were."""
    producer = Producer(
        {"bootstrap.servers": broker, "linger.ms": 5, "partitioner": "murmur2_random"}
    )
    total, sent = int(rate * seconds), 0
    pad = b"x" * 100
    producer.list_topics(topic, timeout=30)  # connects, before the clock runs
    began = time.monotonic()
    while sent < total:
        due = min(total, int((time.monotonic() - began) * rate))
        for number in range(sent, due):
            stream, sequence = number % streams, number // streams + 1
            value = b'{"stream":%d,"seq":%d,"at":%d,"type":"OrderPaid","note":"%b"}' % (
                stream,
                sequence,
                time.time_ns(),
                pad,
            )
            producer.produce(topic, value, b"%d" % stream)
        sent = due
        producer.poll(0)
        time.sleep(TICK)
    if left := producer.flush(30):
        raise TimeoutError(f"the broker did not take {left} events")
    return sent


if __name__ == "__main__":
    send(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
