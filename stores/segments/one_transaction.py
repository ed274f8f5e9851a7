"""A unit of work between SQL and SQL: out of the message log and into the inboxes at once.

There is no save store, no id is remembered and nothing is in doubt afterwards: taking from the log
is what fences, since who finds less there than it has read rolls everything back.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from stores.db.data_errors import OF_DATA, is_of_data
from stores.segments.errors import DestinationDown, PublishRefused, SegmentError
from stores.segments.identity import identify
from stores.segments.intake import UnitIntake
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import InboundMessage, OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.owned_work import OwnedWork
from stores.segments.published_ids import PublishedIds
from stores.segments.transports.sql import InboxOutbound, LogInbound
from stores.two_phase import Coordinator, OutcomeUnknown, TwoPhaseError
from stores.two_phase.coordinator import check_participants

Unit = Sequence[tuple[InboxOutbound, OutboundBatch]]
MOST = 100
"""Attempts after which a message that even errors refuse stops its topic."""


class TwoPhaseConsumer(OwnedWork):
    """Moves what is in a message log into inboxes, each batch in one transaction.

    It is a transaction of one database where all are in that, else one of two phases.

    Args:
        intake: what is consumed, and what becomes of it; its `inbound` is `log`.
        log: what is consumed.
        inboxes: transport → where its messages go.
        ledger: who may work, one process at a time.
        ids: what segments have of the log already, if there were any before.
        holder: who, for whoever asks.
        step: called between any two steps of the commit with the one that was done, for tests.

    Raises:
        TwoPhaseError: these databases cannot take part in one transaction.
    """

    def __init__(
        self,
        intake: UnitIntake,
        log: LogInbound,
        inboxes: Mapping[str, InboxOutbound],
        ledger: SegmentLedger,
        ids: PublishedIds,
        *,
        holder: str = "consumer",
        step: Callable[[str], None] = lambda done: None,
    ) -> None:
        super().__init__(ledger, holder)
        intake.check_parks_nothing()
        self.intake, self._log, self._inboxes, self._ids = intake, log, inboxes, ids
        self._decides, self._others = check_sides(log, inboxes)
        self.step_done, self._batches = step, 0
        self._coordinator: Coordinator | None = None
        self.counts: Counter[str] = Counter()
        """Messages "published" and "diverted"."""

    def __str__(self) -> str:
        return self._log.topic

    def _own(self) -> SegmentOwner | None:
        return self._ledger.own_end(self._log.topic, self._holder)

    async def _connect(self, owner: SegmentOwner) -> None:
        topic = self._log.topic
        waiting = await asyncio.to_thread(self._ledger.backlogs, topic)
        if left := sorted(transport for transport, size in waiting.items() if size):
            raise SegmentError(
                f"{topic}: segments for {', '.join(left)} are to be published before what is in "
                "the log: set two_phase = false, let route publish end them, and set it again"
            )
        if self._others:  # it resolves what was left in doubt
            made = asyncio.to_thread(Coordinator, self._decides, self._others, step=self.step_done)
            self._coordinator = await made
        for transport, inbox in self._inboxes.items():
            await inbox.start(Pair(topic, transport))
        await self.intake.start(self._ledger, owner)

    async def _work(self, owner: SegmentOwner, wait: float) -> int:
        messages = await self.intake.batch(wait)
        if messages:
            await asyncio.to_thread(self._commit, owner, messages)
            self._log.taken()
        return len(messages)

    async def _disconnect(self) -> None:
        coordinator, self._coordinator = self._coordinator, None
        await self._log.stop()
        if coordinator is not None:
            with suppress(SQLAlchemyError):
                await asyncio.to_thread(coordinator.close)

    def _commit(self, owner: SegmentOwner, messages: Sequence[InboundMessage]) -> None:
        known = self._ids.among(identify(each, self.intake.site).id for each in messages)
        new = [each for each in messages if identify(each, self.intake.site).id not in known]
        grouped: dict[str, list[OutboundMessage]] = {}
        for output in self.intake.all_outputs(new):
            grouped.setdefault(output.transport, []).append(output)
        self._batches += 1
        attempts: Counter[str] = Counter()
        while True:
            place = Place(owner.generation, self._batches)
            unit = [
                (
                    self._inboxes[name],
                    OutboundBatch(Pair(self._log.topic, name), tuple(some), place),
                )
                for name, some in grouped.items()
            ]
            refused = self._tried(unit)
            if not refused:
                self.counts["published"] += sum(map(len, grouped.values()))
                return
            for output, reason in refused:
                attempts[output.id] += 1
                instead = self.intake.failures.refused(output, reason, attempts[output.id])
                if instead is not None:
                    self.counts["diverted"] += 1
                    some = grouped[output.transport]
                    some[some.index(output)] = instead
                elif attempts[output.id] > MOST:
                    raise SegmentError(f"message {output.id}: errors refuse it, too: {reason}")

    def _tried(self, unit: Unit) -> list[tuple[OutboundMessage, str]]:
        """Commit a unit; or say which messages are refused, and why, and commit nothing."""
        at: OutboundBatch | None = None
        try:
            with self._transaction() as connections:
                self._log.take(connections[self._log.engine])
                self.step_done("taken")
                for inbox, at in unit:
                    inbox.receive(connections[inbox.engine], at)
                    self.step_done(f"received {at.pair.transport}")
            return []
        except PublishRefused as refused:
            assert at is not None
            return [(at.messages[refused.index], refused.reason)]
        except OutcomeUnknown as error:
            raise DestinationDown(str(error)) from error
        except TwoPhaseError as error:
            raise SegmentError(str(error)) from error
        except (SQLAlchemyError, *OF_DATA) as error:
            unfit = [
                (batch.messages[index], reason)
                for inbox, batch in (unit if is_of_data(error) else ())
                for index, reason in inbox.unfit(batch).items()
            ]
            if not unfit:
                raise
            return unfit

    @contextmanager
    def _transaction(self) -> Iterator["_Connections"]:
        coordinator = self._coordinator
        if coordinator is None:
            with self._decides.begin() as connection:
                self.step_done("begun")
                yield _Connections([self._decides], [connection])
                self.step_done("worked")
            self.step_done("ended")
            return
        with coordinator.transaction() as given:
            yield _Connections([self._decides, *self._others.values()], given)


class _Connections:
    """The connections of a transaction, by any engine of their databases."""

    def __init__(self, engines: Sequence[Engine], connections: Sequence[Connection]) -> None:
        pairs = zip(engines, connections, strict=True)
        self._found = {database(engine): connection for engine, connection in pairs}

    def __getitem__(self, engine: Engine) -> Connection:
        return self._found[database(engine)]


def check_sides(
    log: LogInbound, inboxes: Mapping[str, InboxOutbound]
) -> tuple[Engine, dict[str, Engine]]:
    """Say which database decides, and which others take part; none, where there is only one.

    SQLite can only decide; else the log's does.

    Args:
        log: what is consumed.
        inboxes: transport → where its messages go.

    Raises:
        TwoPhaseError: these databases cannot take part in one transaction.
    """
    engines = {"log": log.engine}
    engines |= {f"inbox-{name}": inbox.engine for name, inbox in inboxes.items()}
    names: dict[str, str] = {}
    for name, engine in engines.items():
        names.setdefault(database(engine), name)
    decides, *others = sorted(names.values(), key=lambda n: engines[n].dialect.name != "sqlite")
    found = {name: engines[name] for name in others}
    check_participants(found)
    return engines[decides], found


def database(engine: Engine) -> str:
    """What two engines of one database have in common: the URL, or the file."""
    if engine.dialect.name == "sqlite":
        return str(Path(engine.url.database or "").resolve())
    return engine.url.render_as_string(hide_password=False)
