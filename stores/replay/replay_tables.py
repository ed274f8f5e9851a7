"""The tables of replays: what each is, what was done to it by whom, and what was refused."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson
from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, RowMapping, Table, Text

from stores.replay.query import Query
from stores.replay.replay_state import ReplayState

logger = logging.getLogger(__name__)
T = TypeVar("T")
METADATA = MetaData()
REPLAYS = Table(
    "sequitur_replays",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("created", BigInteger, nullable=False, index=True),
    Column("query", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("holes", Text, nullable=False),
    Column("targets", Text, nullable=False),
    Column("way", Text, nullable=False),
    Column("rate", Float),
    Column("on_refused", Text, nullable=False),
    Column("ends", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", Text, nullable=False, index=True),
    Column("why", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("done", BigInteger, nullable=False),
    Column("sources", Text, nullable=False),
)
ACTIONS = Table(
    "sequitur_replay_actions",
    METADATA,
    Column("replay", Text, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("action", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
)
REFUSED = Table(
    "sequitur_replay_refused",
    METADATA,
    Column("replay", Text, primary_key=True),
    Column("message", BigInteger, primary_key=True, autoincrement=False),
    Column("reason", Text, nullable=False),
)
"""Messages that were left out, as no broker takes them."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What is published again.

    Attributes:
        id: of this replay alone, in all databases.
        created: when it was previewed, in milliseconds since 1970, by the database.
        query: what is in it; `through` is always there.
        count: how many messages that is.
        holes: what retention had taken before, in words.
        targets: captured topic → the topic that its messages go to; `*` stands for all others.
        way: "direct", or "router": through the rules that the server has.
        rate: messages a second at most; None: as fast as it goes.
        on_refused: "stop" or "skip", where the broker refuses a message for what it is.
        ends: topic → the partitions that are told of its end; for recoveries.
        actor: who asked for it.
        reason: why.
        state: where it is.
        why: it is paused or failed; "" where somebody did that.
        position: the id of the last message that is published.
        done: messages of the set up to there.
        sources: captured topic → how many partitions it had when the first of it was placed.
    """

    id: str
    created: int
    query: Query
    count: int
    holes: tuple[str, ...]
    targets: Mapping[str, str]
    way: str
    rate: float | None
    on_refused: str
    ends: Mapping[str, int]
    actor: str
    reason: str
    state: ReplayState
    why: str
    position: int
    done: int
    sources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Done:
    """What was done to a replay.

    Attributes:
        at: when, in milliseconds since 1970, by the database.
        action: what.
        actor: by whom.
        reason: why.
    """

    at: int
    action: str
    actor: str
    reason: str


_JSON = ("holes", "targets", "ends", "sources")


def replay_of(row: RowMapping) -> Replay:
    """A row as a replay."""
    given: dict[str, Any] = dict(row)
    for name in _JSON:
        given[name] = orjson.loads(given[name])
    given["query"] = Query.from_json(orjson.loads(given["query"]))
    given["holes"] = tuple(given["holes"])
    given["state"] = ReplayState(given["state"])
    return Replay(**given)


def readable(
    rows: Iterable[RowMapping], read: Callable[[RowMapping], T], said: set[str]
) -> list[tuple[T, RowMapping]]:
    """Rows and what they say, without those that cannot be read, which are logged once.

    Args:
        rows: with ids.
        read: reads one.
        said: the ids of those that were logged.
    """
    found = []
    for row in rows:
        try:
            found.append((read(row), row))
        except (ValueError, TypeError) as error:
            if row["id"] not in said:
                said.add(row["id"])
                logger.error("%s is passed over: it cannot be read: %s", row["id"], error)
    return found


def row_of(replay: Replay) -> dict[str, Any]:
    """A replay as a row."""
    row = {name: getattr(replay, name) for name in REPLAYS.c.keys()}  # noqa: SIM118
    for name in _JSON:
        row[name] = orjson.dumps(row[name], default=dict).decode()
    return row | {"query": replay.query.stored()}
