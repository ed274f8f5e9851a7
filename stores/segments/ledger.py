"""START and END of segments, and inbound positions: rows of an SQL database, and what moves them.

Whoever moves something is its owner in the same transaction: a generation that was replaced, and
goes on, changes nothing.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    RowMapping,
    Table,
    Text,
    Update,
    delete,
    select,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from stores.db.advisory_locks import AdvisoryLock
from stores.db.clock import Now
from stores.db.dialect import begin_writing, insert
from stores.db.missing_tables import create_missing
from stores.locks.lease import LEASES, Lease, LeaseLost
from stores.segments.chain import Segment, SegmentChain
from stores.segments.errors import SegmentError, StaleOwner
from stores.segments.message import Pair, Place

METADATA = MetaData()
SEGMENTS = Table(
    "sequitur_segments",
    METADATA,
    Column("router", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("transport", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False),
    Column("start_offset", BigInteger, nullable=False),
    Column("end_offset", BigInteger, nullable=False),
    Column("sealed", Boolean, nullable=False),
)
POSITIONS = Table(
    "sequitur_segment_positions",
    METADATA,
    Column("router", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
)
SOURCES = Table(
    "sequitur_segment_sources",
    METADATA,
    Column("router", Text, primary_key=True),
    Column("topic", Text, primary_key=True),
    Column("known", Text, nullable=False),
)
"""By what topics are told from others of their names."""


@contextmanager
def _lost_is_stale() -> Iterator[None]:
    try:
        yield
    except LeaseLost as error:
        raise StaleOwner(f"{error}; this one stops, the other one goes on") from error


@dataclass(slots=True)
class SegmentOwner:
    """One generation, by its lease, of who moves END or START."""

    lease: Lease
    generation: int
    _renewed: float = field(default_factory=time.monotonic)

    def subject(self, router: str) -> str:
        """What is owned: a topic, or a pair's topic and transport."""
        return self.lease.name.removeprefix(f"segments/{router}/")

    def check(self, connection: Connection) -> None:
        """Have the connection's transaction be this generation's. Raises StaleOwner."""
        with _lost_is_stale():
            self.lease.check(connection, self.generation)

    @property
    def is_due(self) -> bool:
        """Whether a third of the lease is over."""
        return time.monotonic() - self._renewed >= self.lease.seconds / 3

    def renew(self) -> None:
        """Go on owning, if it is due. Raises StaleOwner."""
        if not self.is_due:
            return
        self._renewed = time.monotonic()
        with _lost_is_stale():
            self.lease.renew(self.generation)

    def verify(self) -> None:
        """Ask whether this generation still owns. Raises StaleOwner."""
        with _lost_is_stale():
            self.lease.verify(self.generation)

    def let_go(self) -> None:
        """Let the next one begin at once; where the database is away, when the lease is over."""
        with suppress(SQLAlchemyError):
            self._renewed = math.inf
            self.lease.release(self.generation)


class SegmentLedger:
    """What SQL knows of the segments of a router.

    Args:
        engine: of SQLite or PostgreSQL, from `stores.db.engines`.
        router: whose; several may share a database.
        lease_seconds: how long a dead owner's segments wait for the next owner.
    """

    def __init__(
        self, engine: Engine, router: str = "router", *, lease_seconds: float = 10.0
    ) -> None:
        self.engine, self.router, self._seconds = engine, router, lease_seconds
        # A lease remembers what it has seen: the database's clock may be set back.
        self._leases: dict[tuple[str, str], Lease] = {}
        self._made: set[str] = set()

    @property
    def stand_by(self) -> float:
        """Seconds between two questions whether an owner is gone."""
        return min(max(self._seconds / 10, 0.01), 1.0)

    def create(self) -> None:
        """Make the tables that are missing."""
        with self.engine.begin() as connection:
            begin_writing(connection)
            create_missing(connection, METADATA, AdvisoryLock.SEGMENTS)

    def own_end(self, topic: str, holder: str) -> SegmentOwner | None:
        """Own END and the positions of a topic, None while another one does."""
        return self._own(self._lease(topic), holder)

    def own_start(self, pair: Pair, holder: str) -> SegmentOwner | None:
        """Own START of a pair, None while another one does."""
        return self._own(self._lease(pair.topic, pair.transport), holder)

    def _lease(self, *names: str) -> str:
        return "/".join(("segments", self.router, *names))

    def _own(self, name: str, holder: str) -> SegmentOwner | None:
        lease = self._leases.get((name, holder))
        if lease is None:
            lease = self._leases[name, holder] = Lease(self.engine, name, holder, self._seconds)
        if name not in self._made:
            lease.make()
        self._made.discard(name)  # unless it is there: the database may have been replaced
        generation = lease.acquire()
        asked = select(LEASES.c.name).filter_by(name=name)
        with self.engine.connect() as connection:
            self._made.update(connection.execute(asked).scalars())
        return None if generation is None else SegmentOwner(lease, generation)

    def chain(self, pair: Pair) -> SegmentChain:
        """Read the segments of a pair."""
        with self.engine.connect() as connection:
            return self._chain(connection, pair)

    def positions(self, topic: str) -> dict[int, int]:
        """Read where to go on in each partition of a topic."""
        asked = select(POSITIONS.c.partition, POSITIONS.c.position).filter_by(
            router=self.router, topic=topic
        )
        with self.engine.connect() as connection:
            return {row.partition: row.position for row in connection.execute(asked)}

    def source(self, topic: str) -> str | None:
        """Read by what a topic is told from others of its name."""
        asked = select(SOURCES.c.known).filter_by(router=self.router, topic=topic)
        with self.engine.connect() as connection:
            return connection.execute(asked).scalar_one_or_none()

    def keep_source(self, owner: SegmentOwner, known: str) -> None:
        """Keep by what the owner's topic is told from others. Raises StaleOwner."""
        of = {"router": self.router, "topic": owner.subject(self.router)}
        with self.engine.begin() as connection:
            owner.check(connection)
            line = insert(connection, SOURCES).values(**of, known=known)
            connection.execute(
                line.on_conflict_do_update(index_elements=list(of), set_={"known": known})
            )

    def backlogs(self, topic: str) -> dict[str, int]:
        """Read how many bytes of a topic wait for each transport."""
        asked = select(
            SEGMENTS.c.transport, SEGMENTS.c.end_offset - SEGMENTS.c.start_offset
        ).filter_by(router=self.router, topic=topic)
        sizes: dict[str, int] = {}
        with self.engine.connect() as connection:
            for transport, size in connection.execute(asked):
                sizes[transport] = sizes.get(transport, 0) + size
        return sizes

    def pairs(self) -> list[Pair]:
        """List the pairs that have segments."""
        asked = select(SEGMENTS.c.topic, SEGMENTS.c.transport).filter_by(router=self.router)
        with self.engine.connect() as connection:
            return sorted({Pair(*row) for row in connection.execute(asked)})

    def owner_of(self, pair: Pair) -> str | None:
        """Say who owns START of a pair, None if nobody does."""
        asked = select(LEASES.c.holder).filter_by(name=self._lease(*pair))
        with self.engine.connect() as connection:
            return connection.execute(asked.where(LEASES.c.until > Now())).scalar_one_or_none()

    def take_over(self, owner: SegmentOwner) -> list[SegmentChain]:
        """Seal what earlier generations left of a topic: its END is final. Raises StaleOwner."""
        pairs = [pair for pair in self.pairs() if pair.topic == owner.subject(self.router)]
        with self.engine.begin() as connection:
            owner.check(connection)
            for pair in pairs:
                connection.execute(self._of(pair).values(sealed=True))
            return [self._chain(connection, pair) for pair in pairs]

    def open_segment(self, owner: SegmentOwner, pair: Pair, number: int, name: str) -> None:
        """Open a segment before anything is written to it; those before it are sealed."""
        with self.engine.begin() as connection:
            owner.check(connection)
            self._chain(connection, pair).check_number(number, name)
            connection.execute(self._of(pair).values(sealed=True))
            line = {"number": number, "name": name, "start_offset": 0, "end_offset": 0}
            of = {"router": self.router, **pair._asdict()}
            connection.execute(SEGMENTS.insert().values(**of, **line, sealed=False))

    def advance(
        self,
        owner: SegmentOwner,
        ends: Mapping[Pair, Place],
        positions: Mapping[int, int],
        also: Callable[[Connection], None] | None = None,
    ) -> None:
        """Promise what is written: END of each pair, positions, and what `also` does, at once."""
        topic = owner.subject(self.router)
        with self.engine.begin() as connection:
            owner.check(connection)
            for pair, end in ends.items():
                moved = (
                    self._of(pair)
                    .where(SEGMENTS.c.number == end.number, ~SEGMENTS.c.sealed)
                    .where(SEGMENTS.c.end_offset <= end.offset)
                    .values(end_offset=end.offset)
                )
                if connection.execute(moved).rowcount != 1:
                    last = self._chain(connection, pair).segments[-1:]
                    raise SegmentError(f"{pair}: END cannot move to {end} from {last}; start over")
            for partition, position in positions.items():
                of = {"router": self.router, "topic": topic, "partition": partition}
                line = insert(connection, POSITIONS).values(**of, position=position)
                connection.execute(
                    line.on_conflict_do_update(index_elements=list(of), set_={"position": position})
                )
            if also is not None:
                also(connection)

    def resume(self, owner: SegmentOwner, pair: Pair, known: Place | None) -> SegmentChain:
        """Move START to what the destination itself knows. Raises StaleOwner, SegmentError."""
        with self.engine.begin() as connection:
            owner.check(connection)
            generation = self._generation(connection, pair.topic)
            chain = self._chain(connection, pair).resumed(known, generation)
            for each in chain.segments:
                line = self._of(pair).where(SEGMENTS.c.number == each.number)
                connection.execute(line.values(start_offset=each.start))
            return chain

    def generation(self, topic: str) -> int:
        """Read the last generation of a topic's consumers, 0 before the first."""
        with self.engine.connect() as connection:
            return self._generation(connection, topic)

    def _generation(self, connection: Connection, topic: str) -> int:
        asked = select(LEASES.c.epoch).filter_by(name=self._lease(topic))
        return connection.execute(asked).scalar_one_or_none() or 0

    def published(self, owner: SegmentOwner, pair: Pair, behind: Place | None) -> list[str]:
        """Move START behind what is confirmed, and name the segments that are finished.

        They are struck out by `strike_out`, once they are removed: a segment that is in the store
        and not in SQL is never one that was published.
        """
        with self.engine.begin() as connection:
            owner.check(connection)
            if behind is not None:
                self._chain(connection, pair).published(behind)
                line = self._of(pair).where(SEGMENTS.c.number == behind.number)
                connection.execute(line.values(start_offset=behind.offset))
            finished = (
                select(SEGMENTS.c.name)
                .filter_by(router=self.router, **pair._asdict())
                .where(SEGMENTS.c.sealed, SEGMENTS.c.start_offset == SEGMENTS.c.end_offset)
            )
            return list(connection.execute(finished).scalars())

    def strike_out(self, owner: SegmentOwner, pair: Pair, names: Sequence[str]) -> None:
        """Forget segments that are published and removed. Raises StaleOwner."""
        with self.engine.begin() as connection:
            owner.check(connection)
            for name in names:
                connection.execute(
                    delete(SEGMENTS).filter_by(router=self.router, **pair._asdict(), name=name)
                )

    def _of(self, pair: Pair) -> Update:
        return update(SEGMENTS).filter_by(router=self.router, **pair._asdict())

    def _chain(self, connection: Connection, pair: Pair) -> SegmentChain:
        asked = (
            select(SEGMENTS)
            .filter_by(router=self.router, **pair._asdict())
            .order_by(SEGMENTS.c.number)
        )
        return SegmentChain(pair, tuple(_segments(connection.execute(asked).mappings())))


def _segments(rows: Iterable[RowMapping]) -> Iterable[Segment]:
    for row in rows:
        start, end = row["start_offset"], row["end_offset"]
        yield Segment(row["number"], row["name"], start, end, bool(row["sealed"]))
