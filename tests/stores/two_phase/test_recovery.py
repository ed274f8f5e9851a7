"""What is left in doubt is resolved one way in all databases, whoever does it, and once."""

from concurrent.futures import ThreadPoolExecutor
from math import inf
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import OperationalError

from stores.two_phase.decision_log import DecisionLog, separate_engine
from stores.two_phase.prepared import gid, prepared
from stores.two_phase.recovery import recover
from stores.two_phase.running_transaction import RunningTransaction
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


def test_one_who_may_still_decide_is_left_alone(shop: Engine, other: Engine) -> None:
    seen: list[Any] = []
    recoverer = Coordinator(shop, {"other": other})

    def look() -> None:
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(recoverer.recover).result(60)
        seen.append(([one.participant for one in found.open], found.rolled_back))

    both(Coordinator(shop, {"other": other}, step=At("prepared other", look)))
    assert seen == [(["other"], [])]
    assert rows(shop, other) == [1, 1]


def test_recovery_between_any_two_steps_changes_nothing(shop: Engine, other: Engine) -> None:
    recoverer = Coordinator(shop, {"other": other})
    steps = []

    def step(done: str) -> None:
        steps.append(done)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(recoverer.recover).result(60)

    both(Coordinator(shop, {"other": other}, step=step))
    assert rows(shop, other) == [1, 1]
    assert steps == [
        "begun", "joined", "worked", "prepared other", "decided", "committed other", "ended",
    ]  # fmt: skip
    recover(recoverer.decisions, {"other": other}, keep=-inf)
    assert lines(recoverer) == 0


def test_what_is_younger_than_asked_for_is_left_alone(shop: Engine, other: Engine) -> None:
    leave_in_doubt(shop, other, "prepared other")
    recoverer = DecisionLog(shop)
    assert len(recover(recoverer, {"other": other}, age=3600).open) == 1
    assert len(recover(recoverer, {"other": other}).rolled_back) == 1


@pytest.mark.parametrize(("step", "committed"), [("prepared other", 0), ("decided", 1)])
def test_the_next_one_resolves_what_a_killed_one_left(
    shop: Engine, other: Engine, step: str, committed: int
) -> None:
    running = leave_in_doubt(shop, other, step)
    assert len(prepared("other", other)) == 1
    assert rows(other) == [0]
    coordinator = Coordinator(shop, {"other": other})  # which recovers
    assert rows(shop, other) == [committed, committed]
    assert prepared("other", other) == []
    # The outcome can be asked for a day, though no participant needs it.
    assert coordinator.outcome(running.id) == ("committed" if committed else "aborted")
    assert lines(coordinator) == committed
    assert recover(coordinator.decisions, {"other": other}, keep=-inf).forgotten == committed
    assert lines(coordinator) == 0
    both(coordinator)
    assert rows(shop, other) == [committed + 1, committed + 1]


def test_many_recover_at_once(shop: Engine, other: Engine) -> None:
    coordinator = Coordinator(shop, {"other": other})
    for step in ("prepared other", "decided") * 3:
        leave_in_doubt(shop, other, step, coordinator)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: Coordinator(shop, {"other": other}), range(6)))
    Coordinator(shop, {"other": other})
    assert rows(shop, other) == [3, 3]
    assert prepared("other", other) == []


def test_a_participant_that_is_away_at_the_end_is_caught_up(shop: Engine, other: Engine) -> None:
    coordinator = Coordinator(shop, {"other": other})

    def cut() -> None:
        with other.connect() as connection:
            connection.execute(text(CUT))

    coordinator.step = At("decided", cut)
    both(coordinator)  # it is committed, so it does not raise
    assert rows(shop, other) == [1, 0]
    assert [one.participant for one in coordinator.recover().committed] == ["other"]
    assert rows(shop, other) == [1, 1]


def test_transactions_of_other_decisions_are_left_alone(shop: Engine, other: Engine) -> None:
    with other.connect() as connection:
        part = connection.begin_twophase(gid("f" * 32, uuid4().hex, "other"))
        insert(connection)
        part.prepare()
        found = Coordinator(shop, {"other": other}).recover()
        assert [one.log for one in found.foreign] == ["f" * 32]
        assert found.rolled_back == []
        part.commit()
    assert rows(other) == [1]


def test_a_participant_that_cannot_be_reached_does_not_keep_one_from_starting(
    shop: Engine, other: Engine
) -> None:
    nowhere = create_engine("postgresql+psycopg://postgres@/x?host=/nonexistent")
    coordinator = Coordinator(shop, {"nowhere": nowhere, "other": other})
    assert list(coordinator.recover().unreachable) == ["nowhere"]
    with pytest.raises(OperationalError):
        both(coordinator)
    with coordinator.transaction("other") as connections:
        insert(connections[1])
    assert rows(shop, other) == [0, 1]


def test_a_part_that_may_not_be_ended_holds_up_no_other(shop: Engine, other: Engine) -> None:
    clerk, role = separate_engine(other), f"clerk_{uuid4().hex[:8]}"
    with other.begin() as connection:
        schema = connection.execute(text("SELECT current_schema()")).scalar_one()
        connection.execute(text(f"CREATE ROLE {role}"))
        connection.execute(text(f'GRANT USAGE ON SCHEMA "{schema}" TO {role}'))
        connection.execute(text(f"GRANT ALL ON own TO {role}"))

    @event.listens_for(clerk, "connect")
    def become(connection: Any, _: object) -> None:
        connection.execute(f"SET ROLE {role}")
        connection.commit()

    not_his = leave_in_doubt(shop, other, "decided")
    leave_in_doubt(shop, clerk, "decided")
    found = recover(decisions := DecisionLog(shop), {"other": clerk}, keep=-inf)
    assert [one.transaction for one in found.open] == [not_his.id]
    assert found.unreachable == {}
    assert "permission denied" in next(each for each in found.report() if "cannot be" in each)
    assert rows(other) == [1]
    recover(decisions, {"other": clerk}, keep=-inf)
    assert [line.transaction for line in decisions.lines()] == [not_his.id]
    assert len(recover(decisions, {"other": other}).committed) == 1
    assert rows(other) == [2]
    clerk.dispose()


def test_decisions_that_cannot_be_read_are_no_participant_s_fault(
    shop: Engine, other: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_in_doubt(shop, other, "decided")
    decisions = DecisionLog(shop)

    def outcome(*_: object) -> Any:
        raise OperationalError("SELECT", {}, Exception("the decisions are away"))

    monkeypatch.setattr(decisions, "outcome", outcome)
    with pytest.raises(OperationalError, match="the decisions are away"):
        recover(decisions, {"other": other})
    assert len(recover(DecisionLog(shop), {"other": other}).committed) == 1


@pytest.mark.parametrize("way", ["rolled back", "rolled back by SQLite", "invalidated"])
def test_one_who_gave_up_his_line_does_not_judge_others(
    other: Engine, tmp_path: Path, way: str
) -> None:
    """In SQLite he would know by his right to write, which he does not have any more."""
    shop = next(with_rows(f"sqlite:///{tmp_path}/shop.sqlite"))
    gave_up = Coordinator(shop, {"other": other})
    running = RunningTransaction(gave_up, ("other",))
    if way == "rolled back":
        running.connections[0].rollback()
    elif way == "rolled back by SQLite":
        running.connections[0].exec_driver_sql("ROLLBACK")  # as it does where the disk is full
    else:
        running.connections[0].invalidate()
    seen = []

    def look() -> None:
        with ThreadPoolExecutor(1) as pool:
            found = pool.submit(gave_up.recover).result(60)
        seen.append((len(found.open), len(found.rolled_back)))

    both(Coordinator(shop, {"other": other}, step=At("prepared other", look)))
    assert seen == [(1, 0)]
    assert rows(shop, other) == [1, 1]
    running.rollback()
    shop.dispose()
