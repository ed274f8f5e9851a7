"""What a crash has left in doubt, and how it is resolved."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Engine

from stores.db.steady_clock import steady
from stores.two_phase.decision_log import DecisionLog, Outcome
from stores.two_phase.prepared import PreparedTransaction, end, prepared, state

KEEP = 86_400.0
"""Seconds that the outcome of a transaction which was resolved by recovery can be asked for."""
_LOST = ("08", "57P")
"""PostgreSQL's codes of a connection that is lost, and of a server that ends it."""
Undecided = Callable[[], Collection[str]]


@dataclass(slots=True)
class Recovery:
    """What became of the prepared transactions that were found.

    Attributes:
        committed: what was committed.
        rolled_back: what was rolled back.
        open: left alone, since the one who decides is still at it, or its database cannot tell yet,
            or as it is among the refused.
        refused: gid → why it could not be ended.
        foreign: of other decisions, which this coordinator does not know.
        unreachable: participant → reason; what is prepared there is not known.
        forgotten: decisions that were deleted, since no participant needs them any more.
    """

    committed: list[PreparedTransaction] = field(default_factory=list)
    rolled_back: list[PreparedTransaction] = field(default_factory=list)
    open: list[PreparedTransaction] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    foreign: list[PreparedTransaction] = field(default_factory=list)
    unreachable: dict[str, str] = field(default_factory=dict)
    forgotten: int = 0

    def report(self) -> Iterator[str]:
        """What an operator should know, in lines."""
        for what, found in (("committed", self.committed), ("rolled back", self.rolled_back)):
            for one in found:
                yield f"two-phase transaction {one.transaction} in {one.participant}: {what}"
        for one in self.open:
            if (reason := self.refused.get(one.gid)) is not None:
                yield (
                    f"two-phase transaction {one.transaction} in {one.participant}: it cannot be "
                    f"ended: {reason}; resolve it as the user who prepared it, or a superuser"
                )
        for name, reason in self.unreachable.items():
            yield f"two-phase participant {name} cannot be asked what is in doubt: {reason}"


def recover(
    decisions: DecisionLog,
    participants: Mapping[str, Engine],
    *,
    age: float = 0.0,
    keep: float = KEEP,
    undecided: Undecided = tuple,
) -> Recovery:
    """Commit or roll back what is prepared, by what was decided; leave alone what is not decided.

    age: seconds; what was prepared more recently is taken for undecided. keep: seconds that a
    decision which no participant needs is kept, for who asks for the outcome. undecided: see
    `DecisionLog.outcome`. Raises what the database of the decisions raises; a participant that
    does not answer is only noted.
    """
    recovery = Recovery()
    # Before the participants are asked: a decision's parts were all prepared before it was there,
    # so one that has none left is done with.
    lines = decisions.lines()
    needed = {line.transaction: set(line.participants) for line in lines}
    for name, engine in participants.items():
        try:
            found = prepared(name, engine)
        except Exception as error:  # SQLAlchemy's, or a driver's own
            recovery.unreachable[name] = _said(error)
            continue
        left = _resolve(recovery, decisions, engine, found, age, undecided)
        for transaction, names in needed.items():
            if transaction not in left:
                names.discard(name)
    old = {line.transaction for line in lines if line.begun_at < steady() - keep}
    done = [
        transaction for transaction, names in needed.items() if not names and transaction in old
    ]
    if done and decisions.forget(done):
        recovery.forgotten = len(done)
    return recovery


def _resolve(
    recovery: Recovery,
    decisions: DecisionLog,
    engine: Engine,
    found: list[PreparedTransaction],
    age: float,
    undecided: Undecided,
) -> set[str]:
    """Resolve what was found in one participant; returns the transactions that are left there."""
    left = set()
    for one in found:
        if one.log != decisions.id:
            recovery.foreign.append(one)
            continue
        outcome: Outcome = "open"
        # One that was prepared in the future was so before the clock was set back.
        if not 0 <= one.age < age:
            outcome = decisions.outcome(one.transaction, undecided)
        try:
            ended = outcome != "open" and end(engine, one.gid, commit=outcome == "committed")
        except Exception as error:
            if not (code := state(error)) or code.startswith(_LOST):
                recovery.unreachable[one.participant] = _said(error)
                return {each.transaction for each in found}
            recovery.refused[one.gid], ended = _said(error), False
        if not ended:
            recovery.open.append(one)
            left.add(one.transaction)
        elif outcome == "committed":
            recovery.committed.append(one)
        else:
            recovery.rolled_back.append(one)
    return left


def _said(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
