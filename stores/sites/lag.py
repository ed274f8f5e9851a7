"""What other sites do not have yet of a site's messages, counted."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from aiokafka import TopicPartition

from stores.sites.origin import is_forwarded
from stores.sites.site import Extent, Position, Site

Partition = tuple[str, int]
Positions = Mapping[tuple[str, str, int], Position]


@dataclass(frozen=True, slots=True)
class Behind:
    """What a site lacks of one partition of another one.

    Attributes:
        origin: name of the site where it was published.
        site: name of the one that lacks it; empty: no other site has it.
        topic: of both.
        partition: of both.
        low: the first offset at the origin that is not copied.
        high: the offset there behind the last one.
        messages: how many in between go to other sites; None: too many to count.
        deleted: offsets from `low` on that the origin has no more, 0 if there are none.
        held_from: the offset from which on an open transaction holds messages back, of which some
            may come to nothing; None: none does.
    """

    origin: str
    site: str
    topic: str
    partition: int
    low: int
    high: int
    messages: int | None
    deleted: int = 0
    held_from: int | None = None

    @property
    def most(self) -> int:
        """The most messages that it can be."""
        return self.high - self.low if self.messages is None else self.messages

    @property
    def exact(self) -> bool:
        """Whether it is just as many."""
        return self.messages is not None and self.held_from is None

    @property
    def missing(self) -> bool:
        """Whether a message is missing, or may be."""
        return self.messages != 0 or self.deleted > 0

    def __str__(self) -> str:
        count = self.most if self.exact else f"at most {self.most}"
        gone = f", and {self.deleted} offsets that are deleted there" if self.deleted else ""
        held = ""
        if self.held_from is not None:
            held = f", and stands still at {self.held_from} while a transaction is open there"
        return (
            f"{self.site or 'no other site'} lacks {count} of {self.origin}'s "
            f"{self.topic}/{self.partition}, offsets {self.low} to {self.high}{gone}{held}"
        )


async def lag(
    origin: Site, peers: Sequence[Site], topics: Iterable[str], *, most: int = 1_000_000
) -> list[Behind]:
    """What other sites lack of a site's messages.

    Args:
        origin: the site; it answers.
        peers: the others; they answer.
        topics: which are forwarded.
        most: offsets of a partition that are read to count messages.

    Returns:
        For each partition one of each peer, and one without a `site`: what no peer has, which is
        lost if the origin is lost now.

    Raises:
        SiteError: a topic is not there.
        KafkaError, OSError, TimeoutError: a site does not answer.
    """
    # Positions first: what is forwarded meanwhile counts as not copied yet, never the reverse.
    cluster = await origin.identify()
    copied = {peer.name: await peer.positions() for peer in peers}
    found: list[Behind] = []
    for topic in topics:
        for number, extent in sorted((await origin.extents(topic)).items()):
            key = cluster, topic, number
            places = {name: at[key].next if key in at else 0 for name, at in copied.items()}
            found += await _behind(origin, topic, number, extent, places, most)
    return found


async def _behind(
    origin: Site, topic: str, number: int, extent: Extent, places: Mapping[str, int], most: int
) -> list[Behind]:
    low = max(min(places.values(), default=extent.begin), extent.begin)
    offsets: list[int] | None = None
    if (end := extent.end + extent.held) - low <= most:
        at, offsets = TopicPartition(topic, number), []
        for records in (
            origin.records(at, low, extent.end),
            origin.records(at, max(low, extent.end), end, "read_uncommitted"),
        ):
            async for record in records:
                if is_forwarded(record.headers, record.value, topic):
                    offsets.append(record.offset)
    each = {**places, "": max(places.values(), default=0)}
    return [
        behind(origin.name, name, (topic, number), extent, place, offsets)
        for name, place in each.items()
    ]


def behind(
    origin: str,
    site: str,
    where: Partition,
    extent: Extent,
    place: int,
    offsets: Collection[int] | None,
) -> Behind:
    """What a site lacks that is at `place`, of a log with messages at these offsets. Pure."""
    low, high = max(place, extent.begin), extent.end + extent.held
    count = None if offsets is None else sum(offset >= low for offset in offsets)
    if low >= high:
        count = 0
    held_from: int | None = (at := max(low, extent.end))
    if at >= high or (offsets is not None and max(offsets, default=-1) < at):
        held_from = None
    deleted = max(0, extent.begin - place)
    return Behind(origin, site, *where, place, max(high, place), count, deleted, held_from)


def between(cluster: str, copied: Mapping[str, Positions]) -> dict[Partition, dict[str, Position]]:
    """How far sites have a lost one's partitions, where they differ or not: site → position.

    Args:
        cluster: the lost site's cluster id.
        copied: site → its positions.
    """
    partitions = sorted({key[1:] for at in copied.values() for key in at if key[0] == cluster})
    none = Position(0)
    return {
        where: {name: at.get((cluster, *where), none) for name, at in copied.items()}
        for where in partitions
    }
