"""What was decided can be asked for, as long as anybody may need it."""

import time
from math import inf
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError, OperationalError

from stores.two_phase.decision_log import DecisionLog
from stores.two_phase.prepared import prepared
from stores.two_phase.recovery import recover
from stores.two_phase.running_transaction import OutcomeUnknown, RunningTransaction
from tests.stores.two_phase.parts import (
    CUT,
    At,
    Coordinator,
    both,
    insert,
    leave_in_doubt,
    lines,
    rows,
    with_rows,
)

pytestmark = pytest.mark.integration


def test_one_whose_decision_is_cut_off_cannot_decide_any_more(other: Engine, database: str) -> None:
    shop = next(with_rows(database))
    recoverer = Coordinator(shop, {"other": other})
    seen = []

    def cut() -> None:
        with shop.connect() as connection:
            connection.execute(text(CUT))
        seen.append(len(recoverer.recover().rolled_back))

    with pytest.raises(DBAPIError):
        both(Coordinator(shop, {"other": other}, step=At("prepared other", cut)))
    assert seen == [1]
    assert rows(shop, other) == [0, 0]
    shop.dispose()


def test_a_commit_whose_answer_was_lost_is_looked_up(
    shop: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator(shop, {"other": other})
    for took_place in (True, False):
        running = RunningTransaction(coordinator, ("other",))
        for connection in running.connections:
            insert(connection)
        commit = running._root.commit

        def lost(commit: Any = commit, took_place: bool = took_place) -> None:
            if took_place:
                commit()
            raise OperationalError("COMMIT", {}, Exception("the answer was lost"))

        running._root = type("Root", (), {"commit": staticmethod(lost), "is_active": True})()
        if took_place:
            running.commit()
        else:
            with pytest.raises(OperationalError, match="the answer was lost"):
                running.commit()
        assert rows(shop, other) == [1, 1]


@pytest.mark.parametrize("took_place", [True, False])
def test_an_outcome_that_cannot_be_looked_up_is_said_to_be_unknown(
    shop: Engine, other: Engine, took_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordinator = Coordinator(shop, {"other": other})
    running = RunningTransaction(coordinator, ("other",))
    for connection in running.connections:
        insert(connection)
    commit, outcome = running._root.commit, coordinator.outcome

    def lost(*_: Any) -> Any:
        if took_place:
            commit()
        raise OperationalError("COMMIT", {}, Exception("the answer was lost"))

    running._root = type("Root", (), {"commit": staticmethod(lost), "is_active": True})()
    monkeypatch.setattr(coordinator, "outcome", lambda _: "open")
    with pytest.raises(OutcomeUnknown, match=r"all databases or in none.*Coordinator\.outcome"):
        running.commit()
    assert len(prepared("other", other)) == 1
    monkeypatch.setattr(coordinator, "outcome", outcome)
    assert coordinator.outcome(running.id) == ("committed" if took_place else "aborted")
    coordinator.recover()
    both(coordinator)
    assert rows(shop, other) == ([2, 2] if took_place else [1, 1])


def test_a_participant_that_goes_away_while_it_prepares_is_caught_up(
    shop: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has prepared, and its answer was lost; no other transaction and no start comes after."""
    monkeypatch.setattr("stores.two_phase.coordinator.AGAIN", 0.1)
    coordinator = Coordinator(shop, {"other": other})
    prepare, found = other.dialect.do_prepare_twophase, []

    def lost(connection: Connection, xid: Any) -> None:
        prepare(connection, xid)
        found.extend(prepared("other", other))
        with other.connect() as another:
            another.execute(text(CUT))
        connection.exec_driver_sql("SELECT 1")

    monkeypatch.setattr(other.dialect, "do_prepare_twophase", lost)
    with pytest.raises(DBAPIError):
        both(coordinator)
    assert len(found) == 1
    until = time.monotonic() + 60
    while prepared("other", other):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert rows(shop, other) == [0, 0]


def test_decisions_that_are_not_needed_any_more_are_deleted(
    shop: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.two_phase.coordinator.FORGET", 3)
    coordinator = Coordinator(shop, {"other": other})
    for count in (1, 2, 0, 1):
        both(coordinator)
        assert lines(coordinator) == count
    coordinator.close()
    assert lines(coordinator) == 0
    both(coordinator)
    assert recover(coordinator.decisions, {"other": other}).forgotten == 0  # it is too young
    assert recover(coordinator.decisions, {"other": other}, keep=-inf).forgotten == 1
    assert lines(coordinator) == 0


def test_a_decision_is_kept_for_a_participant_that_is_not_known(
    shop: Engine, other: Engine
) -> None:
    leave_in_doubt(shop, other, "decided")
    decisions = DecisionLog(shop)
    assert recover(decisions, {}, keep=-inf).forgotten == 0
    # Nor can it know that another name is of the same database.
    assert recover(decisions, {"renamed": other}, keep=-inf).forgotten == 0
    assert rows(shop, other) == [1, 1]
    assert recover(decisions, {"other": other}, keep=-inf).forgotten == 1
