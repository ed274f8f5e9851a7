"""What the owner of a topic has parked of it: what joins, and what is let go."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from stores.db.clock import Now
from stores.segments.errors import SegmentDamaged
from stores.segments.message import InboundMessage, OutboundMessage
from stores.segments.parking import (
    MOST,
    PARKED,
    RETRY,
    WITHOUT,
    Parking,
    shown,
    stream_of,
)
from stores.segments.record import HEAD, decode, encode, record_at


@dataclass(frozen=True, slots=True)
class LetGo:
    """Messages of a stream that is let go: the first ones, in order. without: the first fails."""

    partition: int
    stream: str
    without: bool
    who: str
    numbers: tuple[int, ...]
    messages: tuple[InboundMessage, ...]
    reason: str
    since: int


class ParkedTopic:
    """What is parked of a topic, in memory: its owner alone changes it.

    Args:
        parking: of the router.
        topic: the source.
        parks: whether what fails is parked; else only what is behind it.
        most: bytes that are parked, at most.
    """

    def __init__(
        self, parking: Parking, topic: str, *, parks: bool = True, most: int = MOST
    ) -> None:
        self.parking, self._topic, self._parks, self._most = parking, topic, parks, most
        self._counts: Counter[tuple[int, str]] = Counter()
        self._bytes = self._next = 0
        self._new: list[dict[str, Any]] = []
        self.counts: Counter[str] = Counter()
        """Messages "parked", and "refused" since there is no room."""

    def start(self) -> None:
        """Read what is parked: what was to be, and is not durable, is not."""
        self._new.clear()
        of = PARKED.c
        keys, size = (of.partition, of.stream), func.sum(func.length(of.message))
        asked = select(*keys, func.count(), size, func.max(of.number)).group_by(*keys)
        with self.parking.engine.connect() as connection:
            rows = connection.execute(asked.filter_by(**self.parking.mine(self._topic))).all()
        self._counts = Counter({(row[0], row[1]): row[2] for row in rows})
        self._bytes = sum(row[3] for row in rows)
        self._next = max((row[4] for row in rows), default=0) + 1

    @property
    def has_any(self) -> bool:
        """Whether a stream is parked."""
        return bool(self._counts)

    def is_behind(self, message: InboundMessage) -> bool:
        """Whether a message's stream is parked."""
        return bool(self._counts) and (message.partition, stream_of(message)) in self._counts

    def park(self, message: InboundMessage, reason: str | None) -> bool:
        """Park a message with the unit that is open; False where it goes to errors.

        Args:
            message: it.
            reason: why it failed; None: its stream is parked.
        """
        if reason is not None and not self._parks:
            return False
        try:
            body = encode([_kept(message)], 0)
        except (TypeError, ValueError):  # it has a number, or a text, that JSON has not
            self.counts["refused"] += 1
            return False
        if self._bytes + len(body) > self._most:
            self.counts["refused"] += 1
            return False
        stream = stream_of(message)
        self._new.append(
            {
                **self.parking.mine(self._topic),
                "number": self._next,
                "partition": message.partition,
                "stream": stream,
                "position": message.offset,
                "replayable": int(message.replayable),
                "message": body,
                "reason": shown(reason),
            }
        )
        self._next, self._bytes = self._next + 1, self._bytes + len(body)
        self._counts[message.partition, stream] += 1
        self.counts["parked"] += 1
        return True

    def note(self, connection: Connection) -> None:
        """Write what was parked, in the transaction of the owner's unit."""
        if self._new:
            connection.execute(PARKED.insert().values(at=Now()), self._new)

    def noted(self) -> None:
        """The unit is durable."""
        self._new.clear()

    def let_go(self, most: int, size: int) -> LetGo | None:
        """What somebody has let go, if anything is.

        Args:
            most: messages.
            size: bytes; one message may have more.
        """
        if not self._counts:
            return None
        mine, of = self.parking.mine(self._topic), PARKED.c
        heads = select(PARKED).filter_by(**mine).where(of.release.is_not(None)).order_by(of.number)
        with self.parking.engine.connect() as connection:
            head = connection.execute(heads.limit(1)).mappings().one_or_none()
            if head is None:
                return None
            whose = {"partition": head["partition"], "stream": head["stream"]}
            stream = select(of.number, func.length(of.message)).filter_by(**mine, **whose)
            last = head["number"]
            for number, length in connection.execute(stream.order_by(of.number).limit(most)):
                size -= length
                if size < 0:
                    break
                last = number
            rest = select(PARKED).filter_by(**mine, **whose).where(of.number <= last)
            rows = connection.execute(rest.order_by(of.number)).mappings().all()
        how, _, who = head["release"].partition(" ")
        return LetGo(
            **whose,
            without=how == WITHOUT,
            who=who,
            numbers=tuple(row["number"] for row in rows),
            messages=tuple(
                _message(
                    self._topic,
                    row["partition"],
                    row["position"],
                    row["replayable"],
                    row["message"],
                )
                for row in rows
            ),
            reason=head["reason"],
            since=head["at"],
        )

    def went(self, connection: Connection, gone: LetGo, count: int, reason: str | None) -> None:
        """Forget the first messages that went on, in the transaction of the owner's unit.

        Args:
            connection: its.
            gone: what was let go.
            count: how many of it went on.
            reason: why the next one fails; None: none does.
        """
        mine = self.parking.mine(self._topic)
        for number in gone.numbers[:count]:
            connection.execute(delete(PARKED).filter_by(**mine, number=number))
        whose = {"partition": gone.partition, "stream": gone.stream}
        rest = select(func.min(PARKED.c.number)).filter_by(**mine, **whose).scalar_subquery()
        if reason is None:  # the next ones go on, too
            of_head: dict[str, Any] = {
                "release": f"{RETRY} {gone.who}",
                "reason": gone.reason,
                "at": gone.since,
            }
        else:
            of_head = {"release": None, "reason": shown(reason), "at": Now()}
        line = update(PARKED).filter_by(**mine).where(PARKED.c.number == rest)
        connection.execute(line.values(**of_head))


def _kept(message: InboundMessage) -> OutboundMessage:
    content = message.value, message.key, message.headers, message.stream, message.sequence
    return OutboundMessage("", message.producer_id or "", *content, id=str(message.time or ""))


def _message(
    topic: str, partition: int, position: int, replayable: int, kept: bytes
) -> InboundMessage:
    body = record_at(kept, 0, 0)
    if body is None or len(kept) < HEAD.size:
        raise SegmentDamaged(
            f"{topic}/{partition}/{position}: its row in {PARKED.name} is damaged; restore it"
        )
    m = decode(body, "")
    return InboundMessage(
        *(topic, partition, position, position + 1, m.value, m.key, m.headers),
        stream=m.stream,
        sequence=m.sequence,
        producer_id=m.destination or None,
        replayable=bool(replayable),
        time=int(m.id or 0),
    )
