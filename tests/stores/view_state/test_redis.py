"""The Redis store keeps the contract, on a real server that may also crash, or evict."""

from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.exceptions import MasterDownError, MovedError

from checkout.redis import Redis
from stores.view_state.by_url import open_store
from stores.view_state.contract import GROUP, ViewStoreContract
from stores.view_state.table import TableError, TableUnavailable, ViewTable


@pytest.fixture
def client(redis_server: Redis) -> Any:
    client = redis.Redis.from_url(redis_server.url.removeprefix("redis+"))
    client.flushall()
    return client


class TestRedis(ViewStoreContract):
    shared = True
    streams = 300_000

    @pytest.fixture(autouse=True)
    def _place(self, redis_server: Redis, client: Any) -> None:
        self.server = redis_server
        self.url = redis_server.url

    def spoil(self) -> Callable[[], None]:
        self.server.stop()

        def start() -> None:
            self.server.start()

        return start


@pytest.fixture
def table(redis_server: Redis, client: Any) -> ViewTable:
    """A claimed table with two rows, at offset 5."""
    table = open_store(redis_server.url, GROUP).table("board", 0)
    table.claim()
    table.write([(b"pa", b"1"), (b"pb", b"1")], 5)
    return table


def uses(table: ViewTable) -> list[Callable[[], object]]:
    return [
        lambda: table.get(b"pa"),
        lambda: list(table.scan(b"a", b"z")),
        lambda: table.write([(b"pc", b"3")], 7),
        table.clear,
    ]


def test_a_server_that_was_gone_is_used_again(redis_server: Redis, table: ViewTable) -> None:
    redis_server.stop()
    for use in uses(table):
        with pytest.raises(TableUnavailable, match="see that the server runs"):
            use()
    redis_server.start()
    assert table.get(b"pa") == b"1"
    table.write([(b"pa", b"2")], 6)
    assert (table.offset, table.get(b"pa")) == (6, b"2")


def test_what_a_server_has_lost_is_not_built_on(client: Any, table: ViewTable) -> None:
    client.flushall()
    for use in uses(table):
        with pytest.raises(TableUnavailable, match="lost its last writes"):
            use()
    table.claim()
    assert (table.offset, list(table.scan(b"a", b"z"))) == (None, [])


def test_keys_that_were_evicted_make_a_table_to_rebuild(client: Any, table: ViewTable) -> None:
    (keys,) = client.keys("*:keys")
    client.delete(keys)
    with pytest.raises(TableError, match="noeviction"):
        list(table.scan(b"a", b"z"))
    table.claim()
    assert table.offset is None
    table.clear()
    table.write([(b"pa", b"1")], 6)
    assert list(table.scan(b"a", b"z")) == [(b"pa", b"1")]


def test_a_server_without_memory_takes_nothing_of_a_write(client: Any, table: ViewTable) -> None:
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(TableUnavailable, match="memory"):
            table.write([(b"pa", b"2"), (b"pb", None)], 6)
    finally:
        client.config_set("maxmemory", 0)
    assert (table.offset, dict(table.scan(b"a", b"z"))) == (5, {b"pa": b"1", b"pb": b"1"})
    table.write([(b"pa", b"2"), (b"pb", None)], 6)
    assert (table.offset, dict(table.scan(b"a", b"z"))) == (6, {b"pa": b"2"})


def test_a_server_that_takes_no_writes_for_now_costs_no_table(
    client: Any, table: ViewTable
) -> None:
    client.config_set("min-replicas-to-write", 1)
    try:
        for use in (*uses(table)[2:], table.claim):
            with pytest.raises(TableUnavailable, match=r": NOREPLICAS") as error:
                use()
            assert "pc" not in str(error.value).split()
    finally:
        client.config_set("min-replicas-to-write", 0)
    table.claim()
    assert (table.offset, dict(table.scan(b"a", b"z"))) == (5, {b"pa": b"1", b"pb": b"1"})


@pytest.mark.parametrize(
    ("said", "tells"),
    [
        ("BUSY Redis is busy running a script.", "has memory left"),
        ("MISCONF Redis is configured to save RDB snapshots", "has memory left"),
        ("NOREPLICAS Not enough good replicas to write.", "has memory left"),
        ("MOVED 3999 127.0.0.1:6381", "node of a Redis Cluster"),
        ("MASTERDOWN Link with MASTER is down", "has memory left"),
    ],
)
def test_what_a_server_refuses_for_now_costs_no_table(
    table: ViewTable, said: str, tells: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        code, _, rest = said.partition(" ")
        if code == "MOVED":  # as the client reads it
            raise MovedError(rest)
        raise MasterDownError(rest) if code == "MASTERDOWN" else redis.ResponseError(said)

    monkeypatch.setattr(table, "_change", refuse)
    with pytest.raises(TableUnavailable, match=tells):
        table.write([(b"pa", b"2")], 6)


def test_a_table_of_another_kind_of_value_is_an_error_with_the_reason(
    redis_server: Redis, client: Any, table: ViewTable
) -> None:
    (rows,) = client.keys("*:rows")
    client.delete(rows)
    client.set(rows, "somebody else's")
    with pytest.raises(TableError, match="wrong kind of value"):
        open_store(redis_server.url, GROUP).table("board", 0)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(TableUnavailable) as error:
        open_store("redis://:secret@127.0.0.1:1/0", GROUP).table("board", 0)
    assert "secret" not in str(error.value)
    assert "see that the server runs" in str(error.value)
