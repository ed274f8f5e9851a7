"""Two-phase commit in any order of failures, crashes and recoveries: atomic over all databases.

The coordinator is the real one, and so is the database of the decisions, in SQLite. Participants do
what PostgreSQL does with what is prepared. Between any two steps of the coordinator a participant
goes away or comes back, somebody recovers, or the coordinator's process ends.
"""

import sqlite3
import tempfile
from contextlib import ExitStack, suppress
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from soak_capture.producer import engine_of
from stores.two_phase.coordinator import Coordinator
from stores.two_phase.decision_log import DecisionLog
from stores.two_phase.prepared import PreparedTransaction, gid
from stores.two_phase.recovery import Recovery, recover
from tests.examples import some

NAMES = ("log", "stock")
STEPS = ("begun", "joined", "worked", "prepared log", "prepared stock", "decided", "committed log",
         "committed stock", "ended")  # fmt: skip
ACTIONS = ("crash", "recover", "recover early", "recover oneself", *NAMES)
"""What happens after a step; or a participant goes away."""


class Crash(BaseException):
    """The coordinator's process ends: nothing that it does from here on reaches anybody."""


class Gone(Exception):
    """What is to be ended was ended by somebody else."""

    sqlstate = "42704"


class Participant:
    """A participant's engine, and what its disk has. away: it cannot be reached."""

    dialect = SimpleNamespace(name="postgresql")

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.committed: set[str] = set()
        self.rolled_back: set[str] = set()
        self.away = False

    def connect(self) -> "Part":
        self.reach()
        return Part(self)

    def dispose(self) -> None: ...

    def reach(self) -> None:
        if self.away:
            raise ConnectionError("away")

    def end(self, transaction: str, *, commit: bool) -> None:
        self.reach()
        if transaction not in self.prepared:
            raise Gone
        self.prepared.remove(transaction)
        (self.committed if commit else self.rolled_back).add(transaction)


class Part:
    """A participant's connection and its transaction. dead: its process has ended."""

    is_active, dead = True, False
    closed = invalidated = False
    dialect = Participant.dialect
    connection = SimpleNamespace(driver_connection=None)

    def __init__(self, participant: Participant) -> None:
        self.participant, self.info = participant, dict[str, Any]()

    def begin_twophase(self, full: str) -> "Part":
        self.transaction = full.split(":")[2]
        return self

    def prepare(self) -> None:
        self.participant.reach()
        self.participant.prepared.append(self.transaction)

    def commit(self) -> None:
        self._end(commit=True)

    def rollback(self) -> None:
        if self.transaction in self.participant.prepared:
            self._end(commit=False)

    def _end(self, *, commit: bool) -> None:
        if Part.dead:
            raise ConnectionError("nobody is there who could ask")
        self.participant.end(self.transaction, commit=commit)

    def invalidate(self) -> None: ...

    def close(self) -> None: ...


class Machine(RuleBasedStateMachine):
    """One coordinator after the other; SQLite lets one transaction run at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        self.engine = engine_of(f"sqlite:///{folder}/shop.sqlite")
        self.stack.callback(self.engine.dispose)
        self.decisions = DecisionLog(self.engine)
        self.looking = sqlite3.connect(Path(folder, "shop.sqlite"))
        self.stack.callback(self.looking.close)
        for what, instead in (
            ("coordinator.separate_engine", lambda participant: participant),
            ("running_transaction.event", mock.Mock()),
            ("coordinator.Coordinator._watch", lambda self: None),
            ("coordinator.FORGET", 1),
            ("recovery.prepared", self.prepared),
            ("recovery.end", self.end),
            ("decision_log.BUSY", 1),
        ):
            self.stack.enter_context(mock.patch(f"stores.two_phase.{what}", instead))
        self.participants: Any = {name: Participant() for name in NAMES}
        self.decided: set[str] = set()
        self.actions: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        Part.dead = False
        self.coordinator = Coordinator(self.engine, self.participants, step=self.step)

    def prepared(self, name: str, participant: Participant) -> list[PreparedTransaction]:
        participant.reach()
        log = self.decisions.id
        return [
            PreparedTransaction(name, gid(log, each, name), log, each, 0.0, 60.0)
            for each in participant.prepared
        ]

    def end(self, participant: Participant, full: str, *, commit: bool) -> bool:
        with suppress(Gone):
            participant.end(full.split(":")[2], commit=commit)
        return True

    @precondition(lambda self: not self.away())
    @rule(
        actions=st.dictionaries(
            st.sampled_from(STEPS), st.sampled_from(ACTIONS), min_size=1, max_size=4
        ),
        fails=st.sampled_from([False, False, True]),
    )
    def transaction(self, actions: dict[str, str], fails: bool) -> None:
        self.actions = actions
        try:
            with self.coordinator.transaction():
                if fails:
                    raise LookupError
        except Crash:
            self.start()
        except (LookupError, ConnectionError):
            pass

    def step(self, done: str) -> None:
        self.what_is_decided_is_all_that_is_committed()
        action = self.actions.get(done)
        if action == "crash":
            Part.dead = True
            raise Crash
        if action == "recover":
            self.recovered()
        elif action == "recover oneself":
            self.coordinator.recover()
        elif action == "recover early":
            self.recovered(age=100.0)
        elif action:
            self.participants[action].away = True
        self.what_is_decided_is_all_that_is_committed()

    @precondition(lambda self: self.away())
    @rule()
    def come_back(self) -> None:
        for participant in self.participants.values():
            participant.away = False

    def away(self) -> bool:
        return any(participant.away for participant in self.participants.values())

    @rule(age=st.sampled_from([0.0, 100.0]))
    def recover(self, age: float) -> None:
        self.recovered(age)

    def recovered(self, age: float = 0.0) -> Recovery:
        """By another process. age: what was prepared more recently is left alone."""
        # Not by the clock, which may be set while this runs.
        return recover(self.decisions, self.participants, age=age, keep=-inf)

    @invariant()
    def what_is_decided_is_all_that_is_committed(self) -> None:
        lines = {row[0] for row in self.looking.execute(DECIDED)}
        for participant in self.participants.values():
            # Only what all have prepared may be decided: whoever is away can still commit it.
            assert lines - self.decided <= {*participant.prepared}
        self.decided |= lines
        for participant in self.participants.values():
            assert participant.committed <= self.decided
            assert not participant.rolled_back & self.decided

    def teardown(self) -> None:
        self.come_back()
        for _ in range(2):  # decisions are let go of when nobody needs them any more
            left = self.recovered()
        for participant in self.participants.values():
            assert participant.prepared == []
            assert participant.committed == self.decided
        assert not left.open
        assert self.decisions.lines() == []
        self.stack.close()


DECIDED = 'SELECT "transaction" FROM sequitur_decisions'
TestTwoPhase = cast(Any, Machine).TestCase
TestTwoPhase.settings = settings(max_examples=some(100), stateful_step_count=12)
