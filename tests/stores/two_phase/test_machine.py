"""Two-phase commit in any order of steps, crashes and recoveries: atomic over all databases.

Decisions are kept in SQLite, by the code that keeps them; participants are only thought of, and do
what PostgreSQL does with what is prepared.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from unittest import mock
from uuid import uuid4

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import Connection, Engine

from soak_capture.producer import engine_of
from stores.two_phase.log import DecisionLog
from stores.two_phase.prepared import PreparedTransaction, gid
from stores.two_phase.recovery import Recovery, recover

NAMES = ("log", "stock")


class Participant:
    """What a participant's disk has. away: it cannot be reached."""

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.committed: set[str] = set()
        self.rolled_back: set[str] = set()
        self.away = False

    def end(self, transaction: str, *, commit: bool) -> bool:
        """Whether it is ended, by this or before."""
        if self.away:
            return False
        if transaction in self.prepared:
            self.prepared.remove(transaction)
            (self.committed if commit else self.rolled_back).add(transaction)
        return True


def _prepared(name: str, participant: Participant) -> list[PreparedTransaction]:
    if participant.away:
        raise ConnectionError("away")
    found = ((gid(_log, each, name), each) for each in participant.prepared)
    return [PreparedTransaction(name, full, _log, each, 0.0, 60.0) for full, each in found]


def _end(participant: Participant, full: str, *, commit: bool) -> bool:
    return participant.end(full.split(":")[2], commit=commit)


_log = ""


class Machine(RuleBasedStateMachine):
    """One coordinator after the other; SQLite lets one transaction run at a time."""

    def __init__(self) -> None:
        super().__init__()
        global _log
        self.folder = tempfile.TemporaryDirectory()
        self.engine = engine_of(f"sqlite:///{Path(self.folder.name)}/shop.sqlite")
        self.decisions = DecisionLog(self.engine)
        _log = self.decisions.id
        self.participants = {name: Participant() for name in NAMES}
        self.running: tuple[str, Connection] | None = None
        self.decided: set[str] = set()
        self.ending: dict[str, set[str]] = {}
        """Decided transactions → who has not committed them, as their coordinator knows."""

    @precondition(lambda self: self.running is None)
    @rule()
    def begin(self) -> None:
        transaction, connection = uuid4().hex, self.decisions.connect()
        connection.begin()
        self.decisions.write(connection, transaction, NAMES)
        self.running = transaction, connection

    @precondition(lambda self: self.running is not None)
    @rule(name=st.sampled_from(NAMES))
    def prepare(self, name: str) -> None:
        assert self.running is not None
        transaction, participant = self.running[0], self.participants[name]
        if not participant.away and transaction not in participant.prepared:
            participant.prepared.append(transaction)

    @precondition(lambda self: self.is_prepared())
    @rule()
    def decide(self) -> None:
        assert self.running is not None
        transaction, connection = self.running
        connection.commit()
        connection.close()
        self.running = None
        self.decided.add(transaction)
        self.ending[transaction] = set(NAMES)

    @precondition(lambda self: self.running is not None)
    @rule(tidies=st.booleans())
    def abort(self, tidies: bool) -> None:
        """By the coordinator, which rolls back what it reaches, or by its end."""
        assert self.running is not None
        transaction, connection = self.running
        if tidies:
            for participant in self.participants.values():
                participant.end(transaction, commit=False)
        connection.rollback()
        connection.close()
        self.running = None

    @precondition(lambda self: self.ending)
    @rule(name=st.sampled_from(NAMES))
    def commit_part(self, name: str) -> None:
        for transaction, names in list(self.ending.items()):
            if self.participants[name].end(transaction, commit=True):
                names.discard(name)
            if not names and self.decisions.forget([transaction]):
                del self.ending[transaction]

    @rule()
    def crash(self) -> None:
        """Of every coordinator: nobody knows any more what was to be ended."""
        if self.running is not None:
            self.abort(False)
        self.ending.clear()

    @rule(name=st.sampled_from(NAMES))
    def go_away_or_come_back(self, name: str) -> None:
        self.participants[name].away ^= True

    @rule()
    def recover(self) -> None:
        self.recovered()

    def recovered(self) -> Recovery:
        participants = cast(Mapping[str, Engine], self.participants)
        with (
            mock.patch("stores.two_phase.recovery.prepared", _prepared),
            mock.patch("stores.two_phase.recovery.end", _end),
            mock.patch("stores.two_phase.log.BUSY", 1),
        ):
            return recover(self.decisions, participants, keep=-60)

    @invariant()
    def what_is_decided_is_all_that_is_committed(self) -> None:
        for participant in self.participants.values():
            assert participant.committed <= self.decided
            assert not participant.rolled_back & self.decided

    def is_prepared(self) -> Any:
        return self.running is not None and all(
            self.running[0] in participant.prepared for participant in self.participants.values()
        )

    def teardown(self) -> None:
        self.crash()
        for participant in self.participants.values():
            participant.away = False
        for _ in range(2):  # decisions are let go of when nobody needs them any more
            left = self.recovered()
        for participant in self.participants.values():
            assert participant.prepared == []
            assert participant.committed == self.decided
        assert not left.open
        assert self.decisions.lines() == []
        self.engine.dispose()
        self.folder.cleanup()


TestTwoPhase = Machine.TestCase
