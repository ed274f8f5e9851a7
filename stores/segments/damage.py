"""Going on behind damage, which a person decides: what it held is lost."""

from dataclasses import asdict, dataclass

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, select

from stores.db.advisory_locks import AdvisoryLock
from stores.db.clock import Now
from stores.db.dialect import begin_writing
from stores.db.missing_tables import create_missing
from stores.segments.chain import Segment
from stores.segments.errors import SegmentDamaged, SegmentError
from stores.segments.ledger import SegmentLedger
from stores.segments.message import OutboundBatch, Pair, Place
from stores.segments.record import HEAD, decode, length_at, next_intact, record_at
from stores.segments.store import SegmentStore
from stores.segments.transports.transport import Outbound

SKIPPED = Table(
    "sequitur_skipped_damage",
    MetaData(),
    Column("router", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("behind", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
)
"""What was given up, by whose decision, and when (milliseconds since 1970)."""


@dataclass(frozen=True, slots=True)
class SkippedDamage:
    """A segment's name, where its damage began, and where publishing goes on."""

    name: str
    start: int
    behind: int


async def skip_damage(
    ledger: SegmentLedger,
    store: SegmentStore,
    pair: Pair,
    outbound: Outbound,
    *,
    intact: bool = False,
    reason: str = "",
    dry_run: bool = False,
) -> SkippedDamage:
    """Move START of a pair, in SQL and in the destination, to the next intact record.

    Args:
        ledger: START and END.
        store: the segments' bytes.
        pair: whose publisher has stopped.
        outbound: its transport, as that publisher has it.
        intact: skip an intact record, too, if only another version reads it.
        reason: why, which is kept in SQL.
        dry_run: nothing is skipped.

    Returns:
        What was given up.

    Raises:
        SegmentError: a publisher owns the pair, or there is no damage at START.
    """
    owner = ledger.own_start(pair, "skip_damage")
    if owner is None:
        raise SegmentError(f"{pair}: a publisher owns it; stop that one first")
    try:
        segment = ledger.resume(owner, pair, await outbound.start(pair)).to_publish
        if segment is None:
            raise SegmentError(f"{pair}: there is nothing to publish, hence no damage")
        data = store.read(segment.name, segment.start, segment.end)
        body = record_at(data, 0, segment.start)
        if body is not None and not (intact and _is_foreign(body)):
            raise SegmentError(f"{pair}: {segment.name} is intact at {segment.start}; start it")
        behind = next_intact(data, segment.start)
        if body is not None:
            behind = segment.start + HEAD.size + len(body)
        if behind == segment.start + len(data):
            behind = segment.end  # there is none, or the rest is missing
        found = SkippedDamage(segment.name, segment.start, behind)
        if dry_run:
            return found
        with ledger.engine.begin() as connection:
            begin_writing(connection)
            create_missing(connection, SKIPPED.metadata, AdvisoryLock.SEGMENTS)
            row = {"router": ledger.router, **asdict(found), "reason": reason}
            connection.execute(SKIPPED.insert().values(**row, at=select(Now()).scalar_subquery()))
        place = Place(segment.number, behind)
        await outbound.publish(OutboundBatch(pair, (), place))
        finished = ledger.published(owner, pair, place)
        for name in finished:
            store.remove(name)
        ledger.strike_out(owner, pair, finished)
        return found
    finally:
        await outbound.stop()
        owner.let_go()


def is_intact(store: SegmentStore, segment: Segment) -> bool:
    """Whether the record at START can be published."""
    head = store.read(segment.name, segment.start, segment.start + HEAD.size)
    if len(head) < HEAD.size:
        return False
    data = store.read(segment.name, segment.start, segment.start + length_at(head, 0))
    return record_at(data, 0, segment.start) is not None


def _is_foreign(body: bytes) -> bool:
    try:
        decode(body, "")
    except SegmentDamaged:
        return True
    return False
