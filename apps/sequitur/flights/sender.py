"""Send the movements' messages to Kafka as the simulated network delivers them.

`python -m sequitur.flights.sender` sends them to a broker that has the topic, with more disorder if
it is told to, and prints as JSON what was planted.

Key: the ground station that heard the message, which is not the stream. Timestamp: the message's
arrival on the timeline, so that the time between two messages is the simulation's and not this
machine's. Where the sender cannot keep up, the rest of the timeline moves back accordingly.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Any, Protocol

import orjson
from confluent_kafka import Producer

from sequitur.flights.disorder import Disorder
from sequitur.flights.movements import Messages, movements, source_table
from sequitur.flights.network import Delivery, Network
from sequitur.flights.topology import SOURCE

_TICK = 0.02  # seconds between two looks at the timeline
_SLACK = 0.25  # seconds that the sender may be behind before the timeline moves


class KafkaProducer(Protocol):
    """The part of confluent_kafka.Producer that the sender uses."""

    @property
    def produce(self) -> Callable[..., Any]: ...
    def poll(self, timeout: float) -> int: ...
    def flush(self, timeout: float) -> int: ...


def kafka_producer(broker: str) -> Producer:
    """Return an idempotent producer that partitions keys as Java's and aiokafka's do."""
    return Producer(
        {
            "bootstrap.servers": broker,
            "log_level": 0,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
        }
    )


class Sender:
    """A thread that sends a delivery, never ahead of its timeline.

    `sent` counts the messages that the broker has acknowledged, `error` is the reason for which the
    thread gave up. `stop()` ends it early.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        topic: str,
        messages: Sequence[bytes],
        delivery: Delivery,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.total = len(delivery.arrivals)
        self.sent = 0
        self.error: str | None = None
        self._producer = producer
        self._topic = topic
        self._messages = messages
        self._arrivals = delivery.arrivals
        self._clock = clock
        self._stopped = Event()
        self._thread = Thread(target=self._guarded, name="sender", daemon=True)

    @property
    def running(self) -> bool:
        """Whether there is more to come."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin the timeline now."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending and wait until the thread is gone."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(15)

    def _guarded(self) -> None:
        try:
            self.run()
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"

    def run(self) -> None:
        """Send everything, in the calling thread. Raises RuntimeError if some stay unsent."""
        start = self._clock()
        times = self._arrivals["at"].to_numpy()
        arrivals = zip(
            times.tolist(),
            self._arrivals["index"].tolist(),
            self._arrivals["station"].tolist(),
            strict=True,
        )
        done = 0
        while done < self.total and not self._stopped.is_set():
            now = self._clock() - start
            behind = now - times[done]
            if behind > _SLACK:
                start, now = start + behind - _SLACK, now - behind + _SLACK
            due = int(times.searchsorted(now, side="right"))
            for at, index, station in (next(arrivals) for _ in range(done, due)):
                self._send(self._messages[index], station.encode(), int((start + at) * 1000))
            done = due
            self._producer.poll(0)
            self._stopped.wait(_TICK)
        unsent = self._producer.flush(10)
        if self.error is None and unsent and not self._stopped.is_set():
            raise RuntimeError(f"{unsent} messages were not acknowledged in 10 s")

    def _send(self, value: bytes, key: bytes, timestamp: int) -> None:
        record = {"value": value, "key": key, "timestamp": timestamp, "on_delivery": self._acked}
        while not self._stopped.is_set():
            try:
                self._producer.produce(self._topic, **record)
                return
            except BufferError:  # the producer's queue is full
                self._producer.poll(0.1)

    def _acked(self, error: Any, _message: Any) -> None:
        if error is None:
            self.sent += 1
        else:
            self.error = str(error)
            self._stopped.set()


def main(arguments: list[str] | None = None) -> int:
    """Send as the command line says; return the exit status."""
    network = Network()
    parser = argparse.ArgumentParser(prog="python -m sequitur.flights.sender", description=__doc__)
    add = parser.add_argument
    add("--broker", default="127.0.0.1:9092", help="host:port (default: %(default)s)")
    add("--events", type=int, default=200_000, help="movements (default: %(default)s)")
    add("--seed", type=int, default=network.seed, help="of all that is drawn (%(default)s)")
    add("--rate", type=float, default=network.rate, help="movements a second (%(default)s)")
    for name, default, what in (
        ("--lost", network.lost, "of the movements never arrives"),
        ("--malformed", 0.0, "of the movements has a broken message beside it"),
        ("--unknown", 0.0, "of the movements has a weather report beside it"),
        ("--faults", 0.0, "of the movements makes the handler of view aircraft fail"),
    ):
        add(name, type=_share, default=default, metavar="SHARE", help=f"this share {what}")
    given = parser.parse_args(arguments)
    table = source_table()
    moves = movements(table, given.events)
    network = Network(seed=given.seed, rate=given.rate, lost=given.lost)
    disorder = Disorder(given.malformed, given.unknown, given.faults, given.seed)
    sent = disorder.add(Messages(table, moves), network.deliver(table, moves))
    sender = Sender(kafka_producer(given.broker), SOURCE, sent.messages, sent.delivery)
    try:
        sender.run()
    except RuntimeError as error:
        sender.error = sender.error or str(error)
    if sender.error is not None:
        print(f"sending failed: {sender.error}", file=sys.stderr)
        return 1
    print(orjson.dumps(sent.planted(moves)).decode())
    return 0


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("a share is between 0 and 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
