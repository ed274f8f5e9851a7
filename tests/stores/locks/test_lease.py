"""A lease: one holder at a time, and one that was replaced is refused."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, update
from sqlalchemy.exc import OperationalError

from stores.db.engines import open_engine
from stores.locks.lease import LEASES, PLAUSIBLE, Lease, LeaseLost


class LeaseContract:
    def test_one_at_a_time_holds_it(self, engine: Engine) -> None:
        one, two = Lease(engine, "relay", "one", 60), Lease(engine, "relay", "two", 60)
        one.make()
        two.make()
        assert one.acquire() == 1
        assert two.acquire() is None
        one.renew(1)
        one.release(1)
        assert two.acquire() == 2
        assert Lease(engine, "other", "one", 60).acquire() is None, "its line is not made"

    def test_who_was_replaced_is_refused_everywhere(self, engine: Engine) -> None:
        one, two = Lease(engine, "relay", "one", 0.01), Lease(engine, "relay", "two", 60)
        one.make()
        assert one.acquire() == 1
        time.sleep(0.05)
        one.renew(1)  # nobody took it, so it is one's still
        time.sleep(0.05)
        assert two.acquire() == 2
        with pytest.raises(LeaseLost, match="in turn 2 it is two's"):
            one.renew(1)
        with pytest.raises(LeaseLost), engine.begin() as connection:
            one.check(connection, 1)
        with engine.begin() as connection:
            two.check(connection, 2)
        one.release(1)
        two.renew(2)

    def test_a_renewal_that_comes_late_does_not_take_again_what_was_let_go_of(
        self, engine: Engine
    ) -> None:
        one, two = Lease(engine, "relay", "one", 60), Lease(engine, "relay", "two", 60)
        one.make()
        assert one.acquire() == 1
        one.release(1)
        with pytest.raises(LeaseLost, match="one let go of it in turn 1"):
            one.renew(1)
        assert two.acquire() == 2

    def test_a_clock_that_was_set_back_does_not_keep_a_dead_holder_s_lease(
        self, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, two = Lease(engine, "relay", "one", 15), Lease(engine, "relay", "two", 15)
        one.make()
        assert one.acquire() == 1
        assert two.acquire() is None
        here = time.monotonic()
        monkeypatch.setattr("stores.locks.lease.time.monotonic", lambda: here)
        with engine.begin() as connection:  # as if it had been written an hour later
            connection.execute(update(LEASES).values(until=LEASES.c.until + 3_600_000))
        assert two.acquire() is None
        here += PLAUSIBLE - 1
        assert two.acquire() is None
        one.renew(1)  # it is alive, so it is its still
        here += 4
        assert two.acquire() is None
        here += 16  # and now it is not
        assert two.acquire() == 2

    def test_leases_of_one_name_in_two_databases_are_told_apart(self, engine: Engine) -> None:
        one, two = Lease(engine, "relay", "one"), Lease(engine, "relay", "two")
        one.make()
        two.make()
        assert one.identity() == two.identity() != Lease(engine, "other", "one").identity()
        assert one.identity().startswith("relay-")


class TestSqliteLease(LeaseContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = open_engine(f"sqlite:///{tmp_path}/log.sqlite")
        yield engine
        engine.dispose()

    def test_a_check_is_inside_the_transaction_that_it_is_for(self, engine: Engine) -> None:
        """Else another one takes over between the check and what is written on its word."""
        one = Lease(engine, "relay", "one", 0.01)
        one.make()
        assert one.acquire() == 1
        time.sleep(0.05)
        other = create_engine(engine.url, connect_args={"timeout": 0})
        with engine.begin() as connection:
            one.check(connection, 1)
            with pytest.raises(OperationalError, match="locked"):
                Lease(other, "relay", "two", 60).acquire()
        assert Lease(other, "relay", "two", 60).acquire() == 2
        other.dispose()

    def test_two_databases_have_two_identities(self, engine: Engine, tmp_path: Path) -> None:
        other = open_engine(f"sqlite:///{tmp_path}/other.sqlite")
        one, two = Lease(engine, "relay", "one"), Lease(other, "relay", "one")
        one.make()
        two.make()
        assert one.identity() != two.identity()
        other.dispose()


@pytest.mark.integration
class TestPostgresLease(LeaseContract):
    @pytest.fixture
    def engine(self, database: str) -> Iterator[Engine]:
        engine = open_engine(database)
        yield engine
        engine.dispose()
