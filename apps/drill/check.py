"""What is at a site, and whether that is each movement once."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka import TopicPartition

from drill.traffic import Movement, Traffic
from drill.views import View, movement_of
from stores.sites import Origin, Site
from stores.sites.origin import origin_of
from stores.units.kafka.row_log import records_of


@dataclass(frozen=True)
class There:
    """What a site has: movement → how often, and the origins of its copies."""

    movements: Counter[Movement]
    origins: Counter[Origin]


async def there(site: Site, topic: str, forwarded: str) -> There:
    """Read all of a topic, behind transactions that are open as well.

    What a router sent on has the headers of what came: those of a topic that is forwarded.
    """
    movements, origins = Counter[Movement](), Counter[Origin]()
    for number in range(await site.partitions(topic)):
        async for record in records_of(site.kafka, TopicPartition(topic, number)):
            movements[movement_of(record.value)] += 1
            if (origin := origin_of(record.headers, forwarded)) is not None:
                origins[origin] += 1
    return There(movements, origins)


def acked(file: Path) -> dict[tuple[int, int], Movement]:
    """What a publisher was acknowledged: (partition, offset) → movement."""
    found: dict[tuple[int, int], Movement] = {}
    lines = file.read_text().split("\n")[:-1] if file.exists() else []  # one may be half a line
    for line in lines:
        tail, number, partition, offset = line.split("\t")
        found[int(partition), int(offset)] = tail, int(number)
    return found


def before_return(
    copies: int,
    acked: dict[tuple[int, int], Movement],
    lost: Iterable[dict[str, Any]],
    have: dict[str, There],
) -> list[str]:
    """What is wrong at the others after the takeover. lost: what the lag had said, by partition."""
    said = {
        (p, o) for each in lost for p, o in acked if p == each["partition"] and o >= each["low"]
    }
    wrong = []
    counted = sum(each["messages"] for each in lost)
    if not copies and counted != len(said):
        wrong.append(f"the lag said {counted}, and {len(said)} acknowledged lie in its ranges")
    for name, site in have.items():
        missing = {place for place, movement in acked.items() if movement not in site.movements}
        if missing != said:
            wrong.append(
                f"{name}: {len(missing - said)} are missing that the lag had not said, "
                f"{len(said - missing)} are there although it had"
            )
    return wrong


def behind_loss(lost: Iterable[Movement], site: There) -> set[str]:
    """The aircraft of which something waits at a site for one of these that it has not got."""
    last = dict[str, int]()
    for tail, number in site.movements:
        last[tail] = max(number, last.get(tail, 0))
    return {
        tail
        for tail, number in lost
        if number < last.get(tail, 0) and (tail, number) not in site.movements
    }


def loss_shown(gaps: Mapping[str, set[str]], views: Mapping[str, View]) -> list[str]:
    """What is wrong in how the views show a loss. gaps: site → the aircraft that wait for it."""
    if not any(gaps.values()):
        return ["the loss makes no gap in any view: give more --events, or a lower --rate"]
    return [
        f"the view at {name}: {len(hidden)} aircraft do not wait, {min(hidden)} among them, "
        "though something before is lost"
        for name, each in gaps.items()
        if (hidden := each - views[name].waits())
    ]


def at_the_end(traffic: Traffic, have: dict[str, There], views: dict[str, View]) -> list[str]:
    """What is wrong when all is merged."""
    expected = Counter(movement for own in traffic.of.values() for movement in own)
    last: Counter[str] = Counter(tail for tail, _ in expected)
    wrong = []
    for name, site in have.items():
        missing, more = expected - site.movements, site.movements - expected
        again = sum(count - 1 for count in site.origins.values())
        if missing or more or again:
            wrong.append(
                f"{name}: {missing.total()} missing, {more.total()} doubled, {again} origins again"
            )
        view = views[name]
        if view.waiting or view.duplicates or view.last() != last:
            wrong.append(
                f"the view at {name}: {view.waiting} wait, {view.duplicates} came twice, "
                f"{view.ready} of {expected.total()} in order"
            )
    return wrong
