"""What the owner of a pair's START has parked of it: what its destination refused, and what is
behind that.

A row is written before START moves behind its message. What has a row and is not before START was
not dealt with: it is read again, so the row is forgotten when the next owner begins. Parked
messages go out in the place of a record that the consumer writes into the segment for it. They are
told in SQL before they are published: once START is behind that record, they are forgotten.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, and_, delete, func, or_, select, update

from stores.db.clock import Now
from stores.segments.chain import SegmentChain
from stores.segments.errors import SegmentDamaged
from stores.segments.ledger import SegmentOwner
from stores.segments.message import OutboundMessage, Pair, Place
from stores.segments.parking import (
    MOST,
    REFUSED,
    RETRY,
    WITHOUT,
    Parking,
    shown,
    stream_at,
)
from stores.segments.record import decode, encode, record_at
from stores.segments.writer import SegmentWriter

RELEASE = "sequitur-release"
"""The header of a record of a segment with which a stream goes on."""
TOGETHER = 256
"""Messages that go on with one such record, which has more bytes than that: each of them has a
position of its own, for the destinations that tell by it what comes again."""
_BYTES = 4_000_000
_ASK = 1.0
"""Seconds between two questions whether somebody lets a stream go."""


@dataclass(frozen=True, slots=True)
class Release:
    """A stream of a pair that goes on. at: of its first message, if it goes on without that."""

    partition: int
    stream: str
    who: str
    at: Place | None


def released_by(message: OutboundMessage) -> Release | None:
    """The stream that goes on with a record of a segment, None for any other one."""
    if message.destination or message.headers[0][0] != RELEASE:
        return None
    found = orjson.loads(message.headers[0][1])
    at = found.pop("at")
    return Release(**found, at=None if at is None else Place(*at))


class ReleasedPairs:
    """What the owner of END does for streams of pairs that are let go.

    Args:
        parking: of the router.
        topic: the source.
    """

    def __init__(self, parking: Parking, topic: str) -> None:
        self._parking, self._topic = parking, topic
        self._asked: float | None = None

    @property
    def is_due(self) -> bool:
        """Whether it is time to ask for orders."""
        return self._asked is None or time.monotonic() - self._asked >= _ASK

    def give(self, writer: SegmentWriter) -> None:
        """Write into the segments that these streams go on.

        Args:
            writer: of the topic.

        Raises:
            OSError: the store is full or broken.
            StaleOwner: another generation owns END.
        """
        self._asked = time.monotonic()
        names = ("transport", "partition", "stream", "segment", "behind", "release")
        asked = select(*(REFUSED.c[name] for name in names)).where(REFUSED.c.release.is_not(None))
        with self._parking.engine.connect() as connection:
            rows = connection.execute(asked.filter_by(**self._mine)).mappings()
            found = [dict(row) for row in rows]
        if not found:
            return
        records = []
        for row in found:
            how, _, who = row["release"].partition(" ")
            order = {"partition": row["partition"], "stream": row["stream"], "who": who}
            order["at"] = [row["segment"], row["behind"]] if how == WITHOUT else None
            headers = ((RELEASE, orjson.dumps(order)),)
            filling = b" " * TOGETHER
            records.append(OutboundMessage(row["transport"], "", filling, headers=headers))

        def given(connection: Connection) -> None:
            for row in found:
                line = update(REFUSED).filter_by(**self._mine, **row)
                connection.execute(line.values(release=None))

        writer.write(records, {}, given)

    @property
    def _mine(self) -> dict[str, str]:
        return self._parking.mine(self._topic)


class ParkedMessage(NamedTuple):
    """A message that is parked, the place behind it, since when (ms since 1970), and why."""

    message: OutboundMessage
    place: Place
    since: int
    reason: str | None


class ParkedPair:
    """What is parked of a pair, in memory: its owner alone changes it.

    Args:
        parking: of the router.
        pair: the inbound topic and the outbound transport.
        parks: whether what is refused is parked; else only what is behind it.
        most: bytes that are parked, at most.
    """

    def __init__(
        self, parking: Parking, pair: Pair, *, parks: bool = True, most: int = MOST
    ) -> None:
        self._parking, self._pair, self._parks, self._most = parking, pair, parks, most
        self._mine: dict[str, Any] = {**parking.mine(pair.topic, pair.transport)}
        self._counts: Counter[tuple[int, str]] = Counter()
        self._bytes = 0
        self._new: list[dict[str, Any]] = []

    def start(self, owner: SegmentOwner, chain: SegmentChain) -> None:
        """Read what is parked before START; nothing else is.

        Args:
            owner: of START.
            chain: with START.

        Raises:
            StaleOwner: another one is.
        """
        self._new.clear()
        of = REFUSED.c
        went = of.went_segment.is_not(None)
        asked = select(of.partition, of.stream, func.count(), func.sum(func.length(of.message)))
        asked = asked.filter_by(**self._mine).group_by(of.partition, of.stream)
        with self._parking.engine.begin() as connection:
            owner.check(connection)
            for each in chain.segments:
                beyond = and_(of.segment == each.number, of.behind > each.start)
                connection.execute(delete(REFUSED).filter_by(**self._mine).where(beyond))
                beyond = and_(of.went_segment == each.number, of.went_behind > each.start)
                line = update(REFUSED).filter_by(**self._mine).where(beyond)
                connection.execute(line.values(went_segment=None, went_behind=None))
            connection.execute(delete(REFUSED).filter_by(**self._mine).where(went))
            rows = connection.execute(asked).all()
        self._counts = Counter({(row[0], row[1]): row[2] for row in rows})
        self._bytes = sum(row[3] for row in rows)

    def is_behind(self, message: OutboundMessage) -> bool:
        """Whether a message's stream is parked."""
        return bool(self._counts) and stream_at(message) in self._counts

    @property
    def has_new(self) -> bool:
        """Whether something was parked that is not durable."""
        return bool(self._new)

    def park(self, message: OutboundMessage, place: Place, reason: str | None) -> bool:
        """Park a message; False where it goes to errors.

        Args:
            message: it.
            place: the one behind it.
            reason: why it was refused; None: its stream is parked.
        """
        if reason is not None and not self._parks:
            return False
        body = encode([message], 0)
        if self._bytes + len(body) > self._most:
            return False
        partition, stream = stream_at(message)
        more = {"message": body, "reason": None if reason is None else shown(reason)}
        where = {"segment": place.number, "behind": place.offset}
        of = {"partition": partition, "stream": stream}
        self._new.append({**self._mine, **where, **of, **more})
        self._bytes += len(body)
        self._counts[partition, stream] += 1
        return True

    def write(self, owner: SegmentOwner) -> None:
        """Make durable what was parked, before START moves behind it. Raises StaleOwner."""
        with self._parking.engine.begin() as connection:
            owner.check(connection)
            connection.execute(REFUSED.insert().values(at=Now()), self._new)
        self._new.clear()

    def first(self, release: Release) -> tuple[list[ParkedMessage], Place | None]:
        """The first messages of a stream, and the place of the next one, if there is one.

        Args:
            release: of the stream.
        """
        of, found, size = REFUSED.c, list[ParkedMessage](), 0
        asked = select(of.segment, of.behind, of.message, of.at, of.reason)
        asked = asked.filter_by(**self._mine, partition=release.partition, stream=release.stream)
        asked = asked.order_by(of.segment, of.behind).limit(TOGETHER + 1)
        with self._parking.engine.connect() as connection:
            for segment, behind, kept, since, reason in connection.execute(asked):
                place = Place(segment, behind)
                size += len(kept)
                if found and (len(found) == TOGETHER or size > _BYTES):
                    return found, place
                if (body := record_at(kept, 0, 0)) is None:
                    raise SegmentDamaged(
                        f"{self._pair}: the row of {REFUSED.name} at {segment}, {behind} is "
                        "damaged; restore it"
                    )
                message = decode(body, self._pair.transport)
                found.append(ParkedMessage(message, place, since, reason))
        return found, None

    def goes(
        self,
        owner: SegmentOwner,
        release: Release,
        gone: Sequence[ParkedMessage],
        behind: Place,
        rest: Place | None,
        reason: str | None,
    ) -> None:
        """Note what goes out with a record, before it is published.

        Args:
            owner: of START.
            release: the stream.
            gone: what goes.
            behind: the place behind the record.
            rest: of what is the stream's first then, if anything is left.
            reason: why that is refused; None: it goes on with another record.

        Raises:
            StaleOwner: another one owns START.
        """
        of = REFUSED.c
        mine = update(REFUSED).filter_by(
            **self._mine, partition=release.partition, stream=release.stream
        )
        with self._parking.engine.begin() as connection:
            owner.check(connection)
            connection.execute(mine.values(went_segment=None, went_behind=None))
            if gone:
                number, offset = gone[-1].place
                those = or_(of.segment < number, and_(of.segment == number, of.behind <= offset))
                went = {"went_segment": behind.number, "went_behind": behind.offset}
                connection.execute(mine.where(those).values(**went))
            if rest is not None:
                then: dict[str, Any] = {"reason": shown(reason), "at": Now()}
                if reason is None:
                    order = f"{RETRY} {release.who}"
                    then = {"reason": gone[0].reason, "at": gone[0].since, "release": order}
                line = mine.where(of.segment == rest.number, of.behind == rest.offset)
                connection.execute(line.values(**then))
