"""Two databases commit together or not at all, whoever decides."""

from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError

from checkout.postgres import Postgres
from stores.two_phase.decision_log import TwoPhaseError
from stores.two_phase.prepared import prepared
from tests.stores.two_phase.parts import Coordinator, both, insert, rows, with_rows

pytestmark = pytest.mark.integration


def test_both_are_committed_or_neither(shop: Engine, other: Engine) -> None:
    coordinator = Coordinator(shop, {"other": other})
    both(coordinator)
    assert rows(shop, other) == [1, 1]

    def change_one_s_mind(touched: int) -> None:
        with coordinator.transaction() as connections:
            insert(connections[touched])
            raise LookupError

    for touched in (0, 1):
        with pytest.raises(LookupError):
            change_one_s_mind(touched)
    assert rows(shop, other) == [1, 1]
    assert prepared("other", other) == []


def test_three_databases(shop: Engine, other: Engine, database: str) -> None:
    third = next(with_rows(database))
    coordinator = Coordinator(shop, {"other": other, "third": third})
    both(coordinator)
    assert rows(shop, other, third) == [1, 1, 1]
    with coordinator.transaction("third") as (first, last):
        insert(first)
        insert(last)
    assert rows(shop, other, third) == [2, 1, 2]
    with coordinator.transaction("third", "other") as (_, one, two):
        insert(one)
        insert(one)
        insert(two)
    assert rows(shop, other, third) == [2, 2, 4]
    third.dispose()


CHILD = text(
    "CREATE TABLE child (p int PRIMARY KEY, c int REFERENCES child DEFERRABLE INITIALLY DEFERRED)"
)
ORPHAN = text("INSERT INTO child VALUES (1, 2)")
"""Refused when its transaction is to be prepared or committed, and not before."""


def test_a_part_that_cannot_be_prepared_undoes_all(shop: Engine, other: Engine) -> None:
    with other.begin() as connection:
        connection.execute(CHILD)
    coordinator = Coordinator(shop, {"other": other})

    def orphan() -> None:
        with coordinator.transaction() as (one, two):
            insert(one)
            insert(two)
            two.execute(ORPHAN)

    with pytest.raises(DBAPIError, match="foreign key"):
        orphan()
    assert rows(shop, other) == [0, 0]
    both(coordinator)
    assert rows(shop, other) == [1, 1]


def test_a_decision_that_fails_undoes_all(other: Engine, database: str) -> None:
    shop = next(with_rows(database))
    with shop.begin() as connection:
        connection.execute(CHILD)
    coordinator = Coordinator(shop, {"other": other})

    def orphan() -> None:
        with coordinator.transaction() as (one, two):
            insert(two)
            one.execute(ORPHAN)

    with pytest.raises(DBAPIError, match="foreign key"):
        orphan()
    assert rows(shop, other) == [0, 0]
    assert prepared("other", other) == []
    shop.dispose()


@pytest.mark.parametrize("where", [0, 1])
def test_a_block_that_caught_an_error_commits_nothing(
    shop: Engine, other: Engine, where: int
) -> None:
    """PostgreSQL rolls back where it is to commit behind an error, and the other part stayed."""
    coordinator = Coordinator(shop, {"other": other})

    def fails(connection: Connection) -> None:
        with pytest.raises(DBAPIError):
            connection.execute(text("SELECT * FROM nowhere"))

    def block(*, apart: bool) -> None:
        with coordinator.transaction() as connections:
            for each in connections:
                insert(each)
            if apart:
                with suppress(LookupError), connections[where].begin_nested():
                    fails(connections[where])
                    raise LookupError
            else:
                fails(connections[where])

    if where == 0 and shop.dialect.name == "sqlite":  # which goes on behind an error
        block(apart=False)
    else:
        with pytest.raises(TwoPhaseError, match="begin_nested"):
            block(apart=False)
        assert rows(shop, other) == [0, 0]
        block(apart=True)
    assert rows(shop, other) == [1, 1]
    assert prepared("other", other) == []


@pytest.mark.parametrize("immediate", [True, False])
def test_a_block_does_not_go_on_behind_what_sqlite_rolled_back(
    tmp_path: Path, other: Engine, immediate: bool
) -> None:
    """What came next was committed at once, or without the line and what came before."""
    shop = next(with_rows(url := f"sqlite:///{tmp_path}/shop.sqlite"))
    with shop.begin() as connection:
        connection.execute(text("CREATE UNIQUE INDEX once ON own (name)"))
    if not immediate:
        shop.dispose()
        shop = create_engine(url)

    def goes_on() -> None:
        with Coordinator(shop, {"other": other}).transaction() as (one, two):
            insert(one)
            insert(two)
            with pytest.raises(DBAPIError, match="UNIQUE"):
                one.execute(text("INSERT OR ROLLBACK INTO own VALUES ('x')"))
            insert(one, "y")

    with pytest.raises(TwoPhaseError, match="begin_nested"):
        goes_on()
    assert rows(shop, other) == [0, 0]
    shop.dispose()


@pytest.mark.parametrize("way", ["commit", "rollback"])
@pytest.mark.parametrize("which", [0, 1])
def test_a_transaction_that_is_ended_within_the_block_is_refused(
    shop: Engine, other: Engine, way: str, which: int
) -> None:
    coordinator = Coordinator(shop, {"other": other})

    def end_early() -> None:
        with coordinator.transaction() as connections:
            insert(connections[0])
            insert(connections[1])
            getattr(connections[which], way)()

    with pytest.raises(TwoPhaseError, match=r"leave that to the block's end"):
        end_early()
    assert rows(shop, other) == [0, 0]


def test_what_cannot_take_part_is_refused(tmp_path: Path, other: Engine) -> None:
    lite = create_engine(f"sqlite:///{tmp_path}/x.sqlite")
    with pytest.raises(TwoPhaseError, match=r"'log'.*'sqlite', which cannot prepare.*one file"):
        Coordinator(other, {"log": lite})
    with pytest.raises(TwoPhaseError, match="give it another name"):
        Coordinator(other, {"a b": other})
    with (
        pytest.raises(TwoPhaseError, match=r"'none' is not among its participants: other"),
        Coordinator(lite, {"other": other}).transaction("none"),
    ):
        pass


def test_a_server_that_is_not_set_up_for_it_is_named(tmp_path: Path) -> None:
    shop = next(with_rows(f"sqlite:///{tmp_path}/shop.sqlite"))
    with Postgres({"max_prepared_transactions": "0", "fsync": "off"}) as server:
        other = next(with_rows(server.new_database("other")))
        with pytest.raises(TwoPhaseError, match=r"'other'.*max_prepared_transactions.*restart"):
            both(Coordinator(shop, {"other": other}))
        assert rows(shop, other) == [0, 0]
        other.dispose()
