"""Recoveries: a consumer asks for what it missed, on topics of its own, with an end mark."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    MetaData,
    RowMapping,
    Table,
    Text,
    func,
    literal,
    select,
    update,
)

from stores.db.advisory_locks import AdvisoryLock
from stores.db.clock import Now
from stores.db.dialect import begin_writing, insert
from stores.db.missing_tables import create_missing
from stores.replay.errors import Busy, ReplayError, UnknownReplay, WrongState
from stores.replay.message import kept_text
from stores.replay.query import Query
from stores.replay.replay_state import ReplayAction, ReplayState
from stores.replay.replay_tables import readable
from stores.replay.replays import ReplayRequest, Replays, check_who
from stores.replay.retention import Hole
from topology.model.names import checked_topic

RECOVERIES = Table(
    "sequitur_recoveries",
    MetaData(),
    Column("id", Text, primary_key=True),
    Column("created", BigInteger, nullable=False, index=True),
    Column("keep", Integer, nullable=False),
    Column("topics", Text, nullable=False),
    Column("partitions", Text, nullable=False),
    Column("awaited", Text, nullable=False),
    Column("query", Text, nullable=False),
    Column("through_router", Integer, nullable=False),
    Column("rate", Float),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("closed", Text),
    Column("deleted", Integer, nullable=False, index=True),
)
_JSON = ("topics", "partitions", "awaited")
ROUTER = "router"
"""The way of a replay through the rules that the server has."""
MOST_OPEN = 100
"""Recoveries whose topics are there."""
LONGEST_KEEP = 7 * 86_400

Positions = Mapping[str, Mapping[int, int]]
"""Topic → partition → the offset behind."""


@dataclass(frozen=True, slots=True)
class RecoveryRequest:
    """What a consumer asks for.

    Attributes:
        topics: what it consumes.
        query: which messages of these topics; through the router: of the router's sources.
        actor: who asks.
        reason: why.
        through_router: whether captured inbound messages are routed by the rules of now.
        positions: where the consumer stands; what is captured from there on is not recovered.
        rate: messages a second at most; None: as fast as it goes.
        keep: seconds until the recovery's topics are deleted, if nobody closes it before.
    """

    topics: tuple[str, ...]
    query: Query
    actor: str
    reason: str
    through_router: bool = False
    positions: Positions = field(default_factory=lambda: MappingProxyType({}))
    rate: float | None = None
    keep: int = 86_400


@dataclass(frozen=True, slots=True)
class Recovery:
    """A recovery; its replay has the same id.

    Attributes:
        id: of the request.
        created: in milliseconds since 1970, by the database.
        keep: seconds until its topics are deleted.
        topics: the consumer's topic → the one on which it is recovered.
        partitions: topic → how many, of both.
        awaited: what has to be captured before it begins.
        query: what is replayed then.
        through_router: whether that is routed by the rules of now.
        rate: messages a second at most.
        actor: who asked.
        reason: why.
        closed: by whom and why; None: it is open.
        deleted: whether its topics are gone.
    """

    id: str
    created: int
    keep: int
    topics: Mapping[str, str]
    partitions: Mapping[str, int]
    awaited: Positions
    query: Query
    through_router: bool
    rate: float | None
    actor: str
    reason: str
    closed: str | None = None
    deleted: bool = False


class Recoveries:
    """The recoveries of a log.

    Args:
        replays: by which they are carried out.
    """

    def __init__(self, replays: Replays) -> None:
        self.replays, self.engine = replays, replays.engine
        self._said = set[str]()

    def create(self) -> None:
        """Make the tables that are missing, those of replays too."""
        self.replays.create()
        with self.engine.begin() as connection:
            begin_writing(connection)
            create_missing(connection, RECOVERIES.metadata, AdvisoryLock.REPLAY)

    def request(self, asked: RecoveryRequest, ends: Positions, id: str = "") -> Recovery:
        """Take a request; topics are made, and the replay begins, later.

        Args:
            asked: what.
            ends: topic → partition → its end now: of the consumer's topics, and of those that the
                query is about.
            id: what it is known by; unless given, a new one. What is known already stays as it is.

        Raises:
            ReplayError: what is wrong with it.
            Busy: too many are not closed.
        """
        id = id or uuid4().hex[:12]
        topics = {each: checked_topic(f"{each}.recovery.{id}") for each in asked.topics}
        partitions = {each: len(ends[each]) for each in topics}
        _check_positions(asked, ends)
        query = _query(asked, partitions)
        self._check_captured(each for each in query.topics if any(ends[each].values()))
        awaited = {each: dict(asked.positions.get(each) or ends[each]) for each in query.topics}
        made = Recovery(
            *(id, 0, asked.keep, topics, partitions, awaited, query, asked.through_router),
            *(asked.rate, asked.actor, asked.reason),
        )
        if not 1 <= asked.keep <= LONGEST_KEEP:
            raise ReplayError(f"keep {asked.keep}: from 1 to {LONGEST_KEEP} seconds")
        self._replay_of(made)  # raises for what is wrong in it
        self.replays.log.count(replace(query, through=0))
        row = {name: getattr(made, name) for name in RECOVERIES.c.keys()}  # noqa: SIM118
        row |= {
            name: orjson.dumps(row[name], default=dict, option=_KEYS).decode() for name in _JSON
        }
        row |= {"query": query.stored(), "created": Now(), "deleted": 0}
        with self.engine.begin() as connection:
            begin_writing(connection)
            open_ = select(func.count()).where(RECOVERIES.c.closed.is_(None))
            if connection.execute(open_).scalar_one() >= MOST_OPEN:
                what = f"the topics of {MOST_OPEN} recoveries are there still: close some"
                raise Busy(what)
            connection.execute(insert(connection, RECOVERIES).values(row).on_conflict_do_nothing())
        return self.get(id)

    def get(self, id: str) -> Recovery:
        """One recovery. Raises UnknownReplay."""
        with self.engine.connect() as connection:
            return _found(connection, id)

    def newest(self, limit: int = 100) -> list[Recovery]:
        """The newest ones, newest first."""
        asked = select(RECOVERIES).order_by(RECOVERIES.c.created.desc()).limit(limit)
        with self.engine.connect() as connection:
            rows = connection.execute(asked).mappings()
            return [found for found, _ in readable(rows, _recovery, self._said)]

    def open(self) -> list[tuple[Recovery, bool]]:
        """Those whose topics may be there, and whether each has expired."""
        expired = (RECOVERIES.c.created + RECOVERIES.c.keep * literal(1000) < Now()).label(
            "expired"
        )
        asked = select(RECOVERIES, expired).where(RECOVERIES.c.deleted == 0)
        with self.engine.connect() as connection:
            found = connection.execute(asked.order_by(RECOVERIES.c.created)).mappings().all()
        known = readable(found, _recovery, self._said)
        return [(recovery, bool(row["expired"])) for recovery, row in known]

    def waits_for(self, recovery: Recovery) -> list[tuple[str, int, int, int]]:
        """What is not captured yet: (topic, partition, how far it is, how far it has to be)."""
        found = []
        for topic, parts in recovery.awaited.items():
            captured = self.replays.log.positions(topic)
            for number, at in parts.items():
                if captured.get(number, 0) < at:
                    found.append((topic, number, captured.get(number, 0), at))
        return found

    def gone(self, recovery: Recovery) -> list[str]:
        """What is asked for and the log does not have, in words, as far as it knows."""
        found = []
        for hole in self.replays.log.holes(recovery.query):
            awaited = recovery.awaited.get(hole.topic, {}).get(hole.partition)
            if awaited is None or hole.first < awaited:
                found.append(str(hole))
        return found

    def begin(self, recovery: Recovery, lost: Sequence[Hole] = ()) -> None:
        """Freeze what is recovered, and start its replay; done again it changes nothing.

        Args:
            recovery: which.
            lost: what Kafka deleted, and capture has not noted yet.
        """

        def gone() -> list[str]:
            known = self.gone(recovery)
            return [*known, *(each for each in map(str, lost) if each not in known)]

        replay = self.replays.preview(self._replay_of(recovery), recovery.id, gone)
        if replay.state is ReplayState.PREVIEWED:
            with suppress(WrongState):  # another server was faster
                self.replays.act(recovery.id, ReplayAction.START, recovery.actor, recovery.reason)
        if self.get(recovery.id).closed is not None:  # meanwhile
            # Another server may have deleted the topics before they were made.
            self._keep_deleted(recovery.id, 0)
            self.close(recovery.id, recovery.actor, recovery.reason)

    def deleted(self, id: str) -> None:
        """Keep that a recovery's topics are deleted."""
        self._keep_deleted(id, 1)

    def close(self, id: str, actor: str, reason: str) -> Recovery:
        """End a recovery: its replay is cancelled if it runs, its topics are to be deleted.

        Args:
            id: of the request.
            actor: who closes it.
            reason: why.

        Raises:
            ReplayError: one of them is no text that can be kept; nothing is done then.
            UnknownReplay: there is no such recovery.
        """
        check_who(actor, reason)
        with self.engine.begin() as connection:
            begin_writing(connection)
            mine = update(RECOVERIES).where(RECOVERIES.c.id == id, RECOVERIES.c.closed.is_(None))
            connection.execute(mine.values(closed=kept_text(f"{actor}: {reason}")))
            found = _found(connection, id)
        # In this order: `begin` looks whether it is closed when the replay is there.
        with suppress(UnknownReplay, WrongState):
            self.replays.act(id, ReplayAction.CANCEL, actor, reason)
        return found

    def _keep_deleted(self, id: str, deleted: int) -> None:
        mine = update(RECOVERIES).where(RECOVERIES.c.id == id)
        with self.engine.begin() as connection:
            begin_writing(connection)
            connection.execute(mine.values(deleted=deleted))

    def _check_captured(self, topics: Iterable[str]) -> None:
        captured = self.replays.log.topics()
        for topic in topics:
            if topic not in captured:
                known = ", ".join(captured[:20]) or "none"
                raise ReplayError(f"topic {topic!r} is not captured; captured are: {known}")

    @staticmethod
    def _replay_of(recovery: Recovery) -> ReplayRequest:
        return ReplayRequest(
            recovery.query,
            recovery.topics,
            recovery.actor,
            recovery.reason,
            recovery.rate,
            way=ROUTER if recovery.through_router else "direct",
            ends={there: recovery.partitions[each] for each, there in recovery.topics.items()},
        )


_KEYS = orjson.OPT_NON_STR_KEYS


def _check_positions(asked: RecoveryRequest, ends: Positions) -> None:
    for topic, positions in asked.positions.items():
        if topic not in asked.topics:
            raise ReplayError(f"positions: topic {topic!r} is not among the recovery's topics")
        if strange := sorted(positions.keys() - ends[topic].keys()):
            raise ReplayError(f"positions: {topic} has no partition {strange[0]}")
        for number, end in ends[topic].items():
            if number not in positions:
                raise ReplayError(f"positions: {topic} says nothing of partition {number}")
            if positions[number] > end:
                at = f"{topic}/{number} says {positions[number]}, and it ends at {end}"
                raise ReplayError(f"positions: {at}; see that it is the right topic")


def _query(asked: RecoveryRequest, partitions: Mapping[str, int]) -> Query:
    """What is replayed: of the consumer's topics, what is before its positions."""
    if not asked.topics:
        raise ReplayError("topics: name at least one, or an application")
    query = asked.query
    if asked.through_router:
        return query
    topics = query.topics or asked.topics
    if strange := [each for each in (*topics, *query.offsets) if each not in asked.topics]:
        raise ReplayError(f"query: topic {strange[0]!r} is not among the recovery's topics")
    offsets = {**query.offsets}
    for topic, positions in asked.positions.items():
        numbers = range(partitions.get(topic, 0))
        given = query.offsets.get(topic, dict.fromkeys(numbers, (0, None)))
        offsets[topic] = {
            number: (low, positions[number] if high is None else min(high, positions[number]))
            for number, (low, high) in given.items()
            if number in positions
        }
    return replace(query, topics=tuple(topics), offsets=offsets)


def _found(connection: Connection, id: str) -> Recovery:
    asked = select(RECOVERIES).where(RECOVERIES.c.id == id)
    if (row := connection.execute(asked).mappings().one_or_none()) is None:
        raise UnknownReplay(f"there is no recovery {id!r}: see the list of recoveries")
    return _recovery(row)


def _recovery(row: RowMapping) -> Recovery:
    given: dict[str, Any] = {each.name: row[each.name] for each in fields(Recovery)}
    for name in _JSON:
        given[name] = orjson.loads(given[name])
    given["query"] = Query.from_json(orjson.loads(given["query"]))
    for name in ("through_router", "deleted"):
        given[name] = bool(given[name])
    given["awaited"] = {
        topic: {int(number): at for number, at in parts.items()}
        for topic, parts in given["awaited"].items()
    }
    return Recovery(**given)
