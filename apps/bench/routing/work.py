"""Messages of 2 KB, and rules of which each message passes all. As a module: the plain loop.

In its environment, as in a worker's, ROUTING: prefix, number of rules, broker, data folder.
"""

import asyncio
import os
from collections.abc import Iterator

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.cluster import Sent
from topology.routing import JsonKeys, Keymap, RoutedSource, Rule, RuleSet, Target, when

SIZE = 2_048
PARTITIONS = 4
_KEYS = {"tail": "plane.tailnum", "seats": "plane.seats", "origin": "origin", "delay": "delay"}


def messages(count: int) -> Iterator[Sent]:
    """Departures of 1,000 planes, keyed by these."""
    for number in range(count):
        tail = f"N{number % 1_000}"
        body = {"origin": "JFK", "delay": 75, "plane": {"seats": 182, "tailnum": tail}, "n": number}
        body["pad"] = "x" * (SIZE - len(orjson.dumps(body)) - 9)
        yield tail.encode(), orjson.dumps(body)


def cascade(source: str, destination: str, rules: int) -> RuleSet:
    """Rules of three kinds in turn: a keymap, a condition with a table, two conditions."""
    made: list[Rule] = []
    outbound: dict[str, dict[str, Target]] = {}
    for n in range(rules):
        to, then = ((destination,), ()) if n == rules - 1 else ((), (f"r{n + 1}",))
        outbound[f"o{n}"] = dict.fromkeys(("boeing", "airbus", "JFK"), Target(to, then))
        large, late = when("seats", at_least=150), when("delay", over=60)
        made.append(
            (
                Rule(f"r{n}", key="tail", keymap="makers", outbound=f"o{n}"),
                Rule(f"r{n}", key="origin", when=(large,), outbound=f"o{n}"),
                Rule(f"r{n}", when=(late, when("origin", equals="JFK")), to=to, then=then),
            )[n % 3]
        )
    return RuleSet(
        1,
        sources=[RoutedSource(source, ("r0",), module="flights")],
        rules=made,
        destinations={destination: None},
        keymaps=[Keymap("makers", {f"N{n}": ("boeing", "airbus")[n % 2] for n in range(1_000)})],
        outbound=outbound,
        modules={"flights": JsonKeys(_KEYS)},
    )


async def copy(prefix: str, broker: str) -> None:
    """Consume and produce, each batch in a transaction with its offsets."""
    consumer = AIOKafkaConsumer(
        f"{prefix}.in", bootstrap_servers=broker, group_id=prefix, auto_offset_reset="earliest",
        enable_auto_commit=False, isolation_level="read_committed", max_poll_records=8_000,
        max_partition_fetch_bytes=4 << 20,
    )  # fmt: skip
    producer = AIOKafkaProducer(
        bootstrap_servers=broker, transactional_id=f"{prefix}-{os.getpid()}",
        linger_ms=5, max_batch_size=1 << 20, max_request_size=16 << 20,
    )  # fmt: skip
    async with producer, consumer:
        while True:
            if not (found := await consumer.getmany(timeout_ms=200)):
                continue
            async with producer.transaction():
                for record in (each for records in found.values() for each in records):
                    await producer.send(f"{prefix}.out", record.value, record.key)
                behind = {where: records[-1].offset + 1 for where, records in found.items()}
                await producer.send_offsets_to_transaction(behind, prefix)


if __name__ == "__main__":
    prefix, _, broker, _ = os.environ["ROUTING"].split(" ")
    asyncio.run(copy(prefix, broker))
