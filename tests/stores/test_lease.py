"""A lease: one holder at a time, and one that was replaced is refused."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from stores.engines import open_engine
from stores.lease import Lease, LeaseLost


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


class TestSqliteLease(LeaseContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = open_engine(f"sqlite:///{tmp_path}/log.sqlite")
        yield engine
        engine.dispose()


@pytest.mark.integration
class TestPostgresLease(LeaseContract):
    @pytest.fixture
    def engine(self, database: str) -> Iterator[Engine]:
        engine = open_engine(database)
        yield engine
        engine.dispose()
