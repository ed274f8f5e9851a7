"""Of drivers that do not tell whether they are in a transaction none is taken for one that is."""

from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import create_engine

from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import MessageLogError


class Asyncpg:
    def is_in_transaction(self) -> bool:
        return True


class Psycopg2:
    autocommit = False
    info = SimpleNamespace(transaction_status=2)


@pytest.mark.parametrize("driver", [Asyncpg(), Psycopg2()])
def test_a_driver_that_does_not_tell_is_refused_with_the_remedy(
    driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_engine("sqlite://").connect() as connection:
        monkeypatch.setattr(type(connection.connection), "driver_connection", driver, raising=True)
        with pytest.raises(MessageLogError, match=r"test_connection do not tell.*\+psycopg"):
            Outbox(MessageLog()).capture(connection, "orders", "a", None, b"")
