"""Decisions have their tables as a whole or not at all, whoever is killed while they are made."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, inspect, text

from stores.db.engines import open_engine
from stores.two_phase.decision_log import LOG, DecisionLog, TwoPhaseError


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/shop.sqlite")
    yield engine
    engine.dispose()


class Killed(BaseException):
    pass


def test_who_is_killed_while_they_are_made_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    killed = open_engine(f"sqlite:///{tmp_path}/shop.sqlite")

    @event.listens_for(killed, "before_cursor_execute")
    def _kill(_: Any, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT"):
            raise Killed

    with pytest.raises(Killed):
        DecisionLog(killed)
    killed.dispose()
    assert inspect(engine).get_table_names() == []
    assert DecisionLog(engine).id == DecisionLog(engine, create=False).id


def test_what_an_earlier_version_made_in_part_is_made_whole(engine: Engine) -> None:
    with engine.begin() as connection:
        LOG.create(connection)
    with pytest.raises(TwoPhaseError, match="holds no decisions"):
        DecisionLog(engine, create=False)
    made = DecisionLog(engine)
    assert made.lines() == []
    assert DecisionLog(engine).id == made.id


def test_beside_the_table_of_another_version_none_is_made(engine: Engine) -> None:
    with engine.begin() as connection:
        LOG.create(connection)
        connection.execute(text("INSERT INTO sequitur_two_phase VALUES (99, 'x')"))
    with pytest.raises(TwoPhaseError, match="layout 99"):
        DecisionLog(engine)
    assert inspect(engine).get_table_names() == [LOG.name]
