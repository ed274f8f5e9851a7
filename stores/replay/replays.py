"""Replays: what is to be published again, by whom and why, and how far that is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from uuid import uuid4

import orjson
from sqlalchemy import Connection, func, select, update

from stores.db.advisory_locks import AdvisoryLock
from stores.db.clock import Now
from stores.db.dialect import begin_writing, insert
from stores.db.missing_tables import add_missing_column, create_missing
from stores.replay.errors import Busy, ReplayError, UnknownReplay
from stores.replay.log import ReplayLog
from stores.replay.message import kept_text
from stores.replay.query import Query
from stores.replay.replay_state import ReplayAction, ReplayState, after
from stores.replay.replay_tables import (
    ACTIONS,
    METADATA,
    REFUSED,
    REPLAYS,
    Done,
    Replay,
    readable,
    replay_of,
    row_of,
)
from topology.model.names import checked_topic

SERVER = "server"
"""The actor of what nobody asked for."""
RULES = "rules"
"""What is done when a run of a replay begins by rules, or goes on by others."""
OTHERS = "*"
"""Stands for the captured topics that have no target of their own."""
FASTEST = 1_000_000.0
"""Messages a second of a rate, at most."""
MOST_OPEN = 1_000
"""Replays that have not ended."""
_HOLES = 100


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What is asked for; see `Replay`.

    Raises:
        ReplayError: what is wrong in it.
    """

    query: Query
    targets: Mapping[str, str]
    actor: str
    reason: str
    rate: float | None = None
    on_refused: str = "stop"
    way: str = "direct"
    ends: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if not self.targets:
            raise ReplayError(f"name the topic that it goes to; {OTHERS!r} stands for all others")
        for topic in self.targets.values():
            if checked_topic(topic).startswith(("__", "sequitur-")):
                raise ReplayError(
                    f"topic {topic!r} is Kafka's own, or Sequitur's: name one of yours"
                )
        topics = self.query.topics or tuple(self.query.offsets)
        if OTHERS not in self.targets and self.way == "direct":
            missing = [each for each in topics if each not in self.targets]
            if missing or not self.query.topics:
                what = f"topic {missing[0]!r}" if missing else "a query without topics"
                raise ReplayError(f"{what} has no target: name one, or one for {OTHERS!r}")
        if self.rate is not None and not 0.001 <= self.rate <= FASTEST:
            raise ReplayError(f"rate {self.rate}: from 0.001 to {FASTEST:,.0f} messages a second")
        if self.on_refused not in ("stop", "skip"):
            raise ReplayError(f"refused {self.on_refused!r}: say stop or skip")
        check_who(self.actor, self.reason)


class Replays:
    """The replays of a log, in its database.

    Args:
        log: what they publish again.
    """

    def __init__(self, log: ReplayLog) -> None:
        self.log, self.engine = log, log.engine
        self._said = set[str]()

    def create(self) -> None:
        """Make the tables that are missing, those of the log too."""
        self.log.create()
        with self.engine.begin() as connection:
            begin_writing(connection)
            create_missing(connection, METADATA, AdvisoryLock.REPLAY)
            add_missing_column(connection, REPLAYS.c.sources, "'{}'", AdvisoryLock.REPLAY)

    def preview(
        self,
        asked: ReplayRequest,
        id: str | None = None,
        gone: Callable[[], Sequence[str]] | None = None,
    ) -> Replay:
        """Freeze what a query finds now; nothing is published yet.

        Args:
            asked: what is to be published again.
            id: of the replay; one that is there already is returned. None: a new one.
            gone: what is missing of what is asked for, in words; None: what the log says.

        Raises:
            ReplayError: the query asks for a field that is not there, or too many are open.
        """
        end = self.log.end()
        through = end if asked.query.through is None else min(end, asked.query.through)
        frozen = replace(asked.query, through=through)
        count = self.log.count(frozen)
        # After the count: what goes between the two fails the replay, and is not passed over. By
        # the query's own `through`: what was never captured may have a place behind the last id.
        holes = [*map(str, self.log.holes(asked.query))] if gone is None else [*gone()]
        if len(holes) > _HOLES:
            holes = [*holes[:_HOLES], f"and {len(holes) - _HOLES} more"]
        made = Replay(
            id or uuid4().hex[:16],
            0,
            frozen,
            count,
            tuple(holes),
            asked.targets,
            asked.way,
            asked.rate,
            asked.on_refused,
            asked.ends,
            asked.actor,
            asked.reason,
            ReplayState.PREVIEWED,
            "",
            min(frozen.after, through),  # a log that was restored ends before
            0,
            {},
        )
        with self.engine.begin() as connection:
            begin_writing(connection)
            open_ = select(func.count()).where(REPLAYS.c.state.not_in(_ENDED))
            # Recoveries, which name an id, have a limit of their own.
            if id is None and connection.execute(open_).scalar_one() >= MOST_OPEN:
                raise Busy(f"{MOST_OPEN} replays have not ended: cancel some")
            line = insert(connection, REPLAYS).values(row_of(made) | {"created": Now()})
            made_now = line.on_conflict_do_nothing().returning(REPLAYS.c.id)
            if connection.execute(made_now).scalar_one_or_none() is not None:
                _note(connection, made.id, "preview", asked.actor, asked.reason)
        return self.get(made.id)

    def get(self, id: str) -> Replay:
        """One replay. Raises UnknownReplay."""
        with self.engine.connect() as connection:
            return _found(connection, id)

    def newest(self, limit: int = 100, state: ReplayState | None = None) -> list[Replay]:
        """The newest replays, newest first.

        Args:
            limit: how many at most.
            state: only those; None: in any state.
        """
        asked = select(REPLAYS).order_by(REPLAYS.c.created.desc(), REPLAYS.c.id).limit(limit)
        if state is not None:
            asked = asked.where(REPLAYS.c.state == state.value)
        with self.engine.connect() as connection:
            rows = connection.execute(asked).mappings()
            return [found for found, _ in readable(rows, replay_of, self._said)]

    def running(self) -> dict[str, bool]:
        """The id of each that runs → whether it is a recovery's; the oldest first."""
        of = REPLAYS.c
        asked = select(of.id, of.ends).where(of.state == ReplayState.RUNNING.value)
        with self.engine.connect() as connection:
            rows = connection.execute(asked.order_by(of.created)).all()
        return {id: ends != "{}" for id, ends in rows}

    def open(self) -> dict[str, tuple[int, int]]:
        """State → how many replays are in it, and the messages that they have left."""
        of = REPLAYS.c
        asked = select(of.state, func.count(), func.sum(of["count"] - of.done))
        asked = asked.where(of.state.not_in(_ENDED)).group_by(of.state)
        with self.engine.connect() as connection:
            return {row[0]: (row[1], int(row[2])) for row in connection.execute(asked)}

    def history(self, id: str) -> list[Done]:
        """What was done to a replay, in order."""
        of = ACTIONS.c
        asked = select(of.at, of.action, of.actor, of.reason).where(of.replay == id)
        with self.engine.connect() as connection:
            return [Done(*row) for row in connection.execute(asked.order_by(of.number))]

    def refused(self, id: str, limit: int = 100) -> tuple[int, list[tuple[int, str]]]:
        """How many messages were left out, and the first of them: (id in the log, reason)."""
        of = REFUSED.c
        with self.engine.connect() as connection:
            count = connection.execute(select(func.count()).where(of.replay == id)).scalar_one()
            asked = select(of.message, of.reason).where(of.replay == id).order_by(of.message)
            return count, [(row[0], row[1]) for row in connection.execute(asked.limit(limit))]

    def act(
        self,
        id: str,
        action: ReplayAction,
        actor: str,
        reason: str,
        *,
        on_refused: str | None = None,
        check: Callable[[Connection], None] | None = None,
    ) -> Replay:
        """Do something to a replay, and keep who did it and why.

        Args:
            id: of the replay.
            action: what.
            actor: by whom.
            reason: why.
            on_refused: what becomes from now on of messages that the broker refuses.
            check: raises if somebody else runs it now.

        Raises:
            UnknownReplay: there is none.
            WrongState: not in the state that it is in.
        """
        check_who(actor, reason)
        with self.engine.begin() as connection:
            begin_writing(connection)
            if check is not None:
                check(connection)
            found = _found(connection, id, lock=True)
            try:
                state = after(found.state, action)
            except ReplayError as error:
                raise type(error)(f"replay {id}: {error}") from None
            why = reason if action in (ReplayAction.STOP, ReplayAction.FAIL) else ""
            changes = {"state": state.value, "why": kept_text(why) or ""}
            if on_refused is not None:
                changes["on_refused"] = on_refused
            connection.execute(update(REPLAYS).where(REPLAYS.c.id == id).values(**changes))
            _note(connection, id, action.value, actor, reason)
            return _found(connection, id)

    def move(
        self, id: str, position: int, done: int, check: Callable[[Connection], None]
    ) -> Replay:
        """Keep how far a replay is, and return it as it is now.

        Args:
            id: of the replay.
            position: the id of the last message that is published.
            done: messages of the set up to there.
            check: raises if somebody else runs it now.
        """
        with self.engine.begin() as connection:
            begin_writing(connection)
            check(connection)
            of = REPLAYS.c
            ahead = update(REPLAYS).where(of.id == id, of.position <= position)
            connection.execute(ahead.values(position=position, done=done))
            return _found(connection, id)

    def keep_source(self, id: str, topic: str, partitions: int) -> int:
        """Keep how many partitions a topic has, unless that is kept; returns what is.

        Args:
            id: of the replay.
            topic: where its messages were captured.
            partitions: now.
        """
        with self.engine.begin() as connection:
            begin_writing(connection)
            kept = {topic: partitions, **_found(connection, id, lock=True).sources}
            mine = update(REPLAYS).where(REPLAYS.c.id == id)
            connection.execute(mine.values(sources=orjson.dumps(kept).decode()))
        return kept[topic]

    def keep_rules(self, id: str, rules: str) -> None:
        """Keep by which rules a replay goes on, where they are others than before.

        Args:
            id: of the replay.
            rules: what tells them from others.
        """
        before = [each.reason for each in self.history(id) if each.action == RULES]
        if before[-1:] != [rules]:
            with self.engine.begin() as connection:
                begin_writing(connection)
                _found(connection, id, lock=True)
                _note(connection, id, RULES, SERVER, rules)

    def leave_out(self, id: str, message: int, reason: str) -> None:
        """Keep that a message is not published, as the broker refuses it."""
        with self.engine.begin() as connection:
            begin_writing(connection)
            values = {"replay": id, "message": message, "reason": kept_text(reason)}
            line = insert(connection, REFUSED).values(**values)
            connection.execute(line.on_conflict_do_nothing())


_ENDED = [each.value for each in ReplayState if each.ended]
_LONGEST = 200


def check_who(actor: str, reason: str) -> None:
    """Raises ReplayError unless both are texts that can be kept."""
    for name, text, longest in (("actor", actor, _LONGEST), ("reason", reason, 2 * _LONGEST)):
        if not text.strip() or len(text) > longest or text != kept_text(text):
            raise ReplayError(f"{name}: write a text of at most {longest} characters")


def _found(connection: Connection, id: str, lock: bool = False) -> Replay:
    asked = select(REPLAYS).where(REPLAYS.c.id == id)
    row = connection.execute(asked.with_for_update() if lock else asked).mappings().one_or_none()
    if row is None:
        raise UnknownReplay(f"there is no replay {id!r}: see the list of replays")
    return replay_of(row)


def _note(connection: Connection, id: str, action: str, actor: str, reason: str) -> None:
    number = select(func.count() + 1).where(ACTIONS.c.replay == id).scalar_subquery()
    of = {"replay": id, "number": number, "at": Now(), "action": action}
    connection.execute(ACTIONS.insert().values(**of, actor=actor, reason=reason))
