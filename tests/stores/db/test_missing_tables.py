"""Where all tables are there, who starts waits for nobody: who is in doubt may hold locks."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, create_engine, inspect, text

from checkout.postgres import Postgres
from stores.db.engines import open_engine
from stores.inbox.inbox import Inbox
from stores.locks.lease import Lease
from stores.outbox.log import MessageLog
from stores.outbox.retention import RetentionStore
from stores.two_phase.decision_log import DecisionLog

pytestmark = pytest.mark.integration


@pytest.fixture
def engine(postgres: Postgres) -> Iterator[Engine]:
    engine = open_engine(postgres.new_database(f"missing-{uuid4().hex[:8]}"))
    yield engine
    engine.dispose()


def make_kept(engine: Engine) -> None:
    with engine.begin() as connection:
        RetentionStore(engine, MessageLog(), 60).make(connection)


MAKERS: dict[str, Callable[[Engine], object]] = {
    "message log": MessageLog().create,
    "retention": make_kept,
    "decisions": DecisionLog,
    "lease": lambda engine: Lease(engine, "one", "me").make(),
    "inbox": Inbox,
}


@pytest.mark.parametrize("name", MAKERS)
def test_who_starts_where_all_is_there_waits_for_nobody(engine: Engine, name: str) -> None:
    for make in MAKERS.values():
        make(engine)
    waiting = create_engine(engine.url, connect_args={"options": "-c lock_timeout=10000"})
    with engine.connect() as holder, holder.begin():
        hold_all(holder)
        MAKERS[name](waiting)
    waiting.dispose()


def hold_all(connection: Connection) -> None:
    """As a transaction that has made tables of its own and written to all that are there."""
    for number in (0x5E9018, 0x5E9019, 0x5E901A, 0x5E901B):
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})
    for table in inspect(connection).get_table_names():
        connection.execute(text(f'LOCK TABLE "{table}" IN ROW EXCLUSIVE MODE'))
