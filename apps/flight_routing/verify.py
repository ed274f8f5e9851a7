"""What came to the destinations, held against what pandas says."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import aio_pika
import orjson
import pandas as pd

from flight_routing.departures import CONTENT, days, expected
from flight_routing.formats import parsed
from soak.check import read
from stores.segments.day_of import DAY
from topology.model.counted import counted
from topology.model.origin_headers import ORIGIN
from topology.routing import RULES_HEADER

_END = b'{"day"'
Arrived = list[tuple[str, bytes]]
"""(id of the message, or "" where the transport has none; content), in the order of the topic."""


@dataclass(frozen=True)
class Verdict:
    """The comparison: lines to print, and how much of it differs."""

    lines: list[str]
    differences: int


def of_kafka(broker: str, topic: str) -> Arrived:
    """What a topic has; nothing that a transaction took back."""
    found = []
    for record in read(broker, topic):
        if DAY not in (headers := dict(record.headers() or ())):
            found.append((str(headers[ORIGIN]), record.value() or b""))
    return found


def of_file(path: Path) -> Arrived:
    """What a file has."""
    return [("", line) for line in path.read_bytes().splitlines()] if path.exists() else []


def of_queue(url: str, queue: str) -> Arrived:
    """What a queue has; it is empty afterwards."""

    async def take() -> Arrived:
        found: Arrived = []
        async with await aio_pika.connect(url) as connection:
            channel = await connection.channel()
            await channel.set_qos(1_000)
            taken = await channel.declare_queue(queue, passive=True)
            left = taken.declaration_result.message_count or 0
            if left:
                async with taken.iterator(no_ack=True, timeout=30) as messages:
                    async for each in messages:
                        found.append((each.message_id or "", each.body))
                        if len(found) == left:
                            break
        return found

    return asyncio.run(take())


def compare(
    flown: pd.DataFrame, arrived: Mapping[str, Arrived], places: Mapping[str, str]
) -> Verdict:
    """Compare each destination, and how many destinations each departure has.

    places: destination → where it is, for the table. What came again with an id that had come is
    discarded, as an inbox does, and counted; only a queue may have such.
    """
    rows = zip(*(flown[name].tolist() for name in CONTENT), strict=True)
    content = {row[0]: tuple(map(str, row)) for row in rows}
    place_in_order = {number: at for at, number in enumerate(content)}
    wanted, differences, lines = expected(flown), 0, []
    found: dict[str, set[int]] = {}
    for name, messages in arrived.items():
        once = list(dict(messages).values()) if messages and messages[0][0] else [
            body for _, body in messages
        ]  # fmt: skip
        again = len(messages) - len(once)
        ends = 0 if places[name].startswith("Kafka") else _day_faults(once, flown)
        values = [parsed(body) for body in once if not body.startswith(_END)]
        ids = [int(each[0]) for each in values]
        found[name] = set(ids)
        wrong = len(wanted[name] ^ found[name]) + len(ids) - len(found[name])
        wrong += sum(content.get(number) != each for number, each in zip(ids, values, strict=True))
        wrong += _out_of_order(values, place_in_order) + ends
        wrong += again if not places[name].startswith("RabbitMQ") else 0
        differences += wrong
        note = f"; {again} came again with the same id" if again else ""
        lines.append(
            f"  {name:<8} {places[name]:<16} {len(found[name]):>9,} of {len(wanted[name]):>7,}, "
            f"differences {wrong}{note}"
        )
    here, there = _counted(content, found.values()), _counted(content, wanted.values())
    for number in range(len(wanted) + 1):
        if here[number] or there[number] or number < 5:
            wrong = abs(here[number] - there[number])
            differences += wrong
            lines.append(
                f"  to {counted(number, 'destination'):<22} {here[number]:>9,} of "
                f"{there[number]:>7,}, differences {wrong}"
            )
    return Verdict(lines, differences)


def check_reload(broker: str, topics: Iterable[str]) -> Verdict:
    """Whether each partition was routed by rules 1 up to one offset, and by rules 2 from there.

    It goes by what the headers of the routed messages say.
    """
    spans: dict[tuple[str, str], list[int]] = {}
    counts: Counter[str] = Counter()
    for topic in topics:
        for record in read(broker, topic):
            if DAY in (headers := dict(record.headers() or ())):
                continue
            version, origin = (
                str(headers[name] or b"", "utf-8")  # type: ignore[arg-type]
                for name in (RULES_HEADER, ORIGIN)
            )
            _, partition, offset, _ = origin.split("/")
            spans.setdefault((partition, version), []).append(int(offset))
            counts[version] += 1
    wrong = int({*counts} != {"1", "2"})
    for partition in {each for each, _ in spans}:
        before, behind = (spans.get((partition, version), ()) for version in "12")
        wrong += max(before, default=-1) >= min(behind, default=1 << 62)
    line = f"  {counts['1']:,} messages by rules 1, {counts['2']:,} by rules 2, differences {wrong}"
    return Verdict([line], wrong)


def _counted(every: Iterable[int], sets: Iterable[set[int]]) -> Counter[int]:
    """Number of destinations → departures that have so many."""
    some = Counter(number for each in sets for number in each)
    return Counter(some[number] for number in every)


def _day_faults(bodies: Iterable[bytes], flown: pd.DataFrame) -> int:
    """Ends of days that are missing, twice or out of order, and departures on the wrong side."""
    day_of = dict(zip(map(str, flown["id"]), days(flown), strict=True))
    ended, seen, wrong = list[str](), "", 0
    for body in bodies:
        if body.startswith(_END):
            ended.append(orjson.loads(body)["day"])
            wrong += seen > ended[-1]
        else:
            day = day_of.get(parsed(body)[0], "")
            seen = max(seen, day)
            wrong += bool(ended) and day <= ended[-1]
    return wrong + (ended != sorted({*day_of.values()}))


def _out_of_order(values: list[tuple[str, ...]], place: Mapping[int, int]) -> int:
    """Departures of an aircraft that came before an earlier one of it."""
    last: dict[str, int] = {}
    wrong = 0
    for each in values:
        at, tail = place.get(int(each[0]), -1), each[CONTENT.index("tail")]
        wrong += at < last.get(tail, -1)
        last[tail] = at
    return wrong
