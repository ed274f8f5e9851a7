"""View-state tables in Redis: per table a hash of rows, and a sorted set that orders their keys.

The changelog offset and the stamp are fields of the same hash as the rows: where a server loses or
evicts one, it loses all. A write is one MULTI/EXEC transaction, and is void if another worker has
changed the table meanwhile (WATCH).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import redis
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ConnectionError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,
    WatchError,
)

from stores.db.urls import UrlError, said, without_password
from stores.view_state.fencing_token import FencingToken, unclaimed
from stores.view_state.table import TableError, TableUnavailable
from topology.model.partition_table import Row

PAGE = 500
"""Rows that a scan reads at a time."""
CONNECT, ANSWER = 5.0, 20.0
"""Seconds that connecting and an answer may take."""

OFFSET = b"\0offset"
STAMP = b"\0stamp"
OWN = 2
"""Fields of the hash that are no rows, once it has an offset."""

# Of these WatchError says that the connection was lost, or that somebody changed the table just
# now: the next try will tell who.
_AWAY = (
    BusyLoadingError,
    ConnectionError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    TimeoutError,
    WatchError,
)
_NOT_NOW = ("BUSY ", "MISCONF", "NOREPLICAS")
"""How a server begins what it says while a script, its own disk or its replicas fail it."""

T = TypeVar("T")


def _is_away(error: RedisError) -> bool:
    return isinstance(error, _AWAY) or _answer(error).startswith(_NOT_NOW)


def _answer(error: RedisError) -> str:
    """What the server said, without the command, rows and all, that a pipeline puts before it."""
    return str(error).rpartition(" of pipeline caused error: ")[2]


class RedisStore:
    """The tables of a group in a Redis database."""

    def __init__(self, client: Any, group: str, name: str) -> None:
        self.client = client
        self.group = group
        self.name = name

    def table(self, view: str, partition: int) -> "RedisTable":
        return RedisTable(self, view, partition)

    def close(self) -> None:
        self.client.close()


class RedisTable:
    """The rows of one view in one partition; see `stores.view_state.table.ViewTable`."""

    def __init__(self, store: RedisStore, view: str, partition: int) -> None:
        self._client = store.client
        self.name = f"{store.group}/{view}/{partition} in {store.name}"
        # The braces let a cluster keep both on one node, as a transaction needs. Lengths, so that
        # no two (group, view, partition) come to the same.
        at = f"{{{len(store.group)}:{store.group}:{len(view)}:{view}:{partition}}}"
        self._rows = f"sequitur:{at}:rows".encode()
        self._keys = f"sequitur:{at}:keys".encode()
        self._stamp: FencingToken | None = None
        self.offset: int | None = None
        self._do("open", self._look)

    def _look(self) -> None:
        self._set_offset(self._client.hget(self._rows, OFFSET))

    def _set_offset(self, found: bytes | None) -> None:
        self.offset = int(found) if found is not None and found.isdigit() else None

    def claim(self) -> None:
        self._do("claim", self._claim)

    def _claim(self) -> None:
        stamp = FencingToken()
        with self._client.pipeline(transaction=True) as work:
            work.hset(self._rows, STAMP, str(stamp))
            work.hget(self._rows, OFFSET)
            work.hlen(self._rows)
            work.zcard(self._keys)
            _, offset, fields, keys = work.execute()
        # Where one of the two is gone, nothing is known of the table.
        self._set_offset(offset if fields == keys + OWN else None)
        self._stamp = stamp

    def get(self, key: bytes) -> bytes | None:
        stamp, value = self._do("read", lambda: self._client.hmget(self._rows, [STAMP, key]))
        self._check(stamp)
        found: bytes | None = value
        return found

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        low, high = b"[" + first, b"(" + end
        while page := self._do("read", lambda low=low: self._page(low, high)):  # type: ignore[misc]
            yield from page
            if len(page) < PAGE:
                return
            low = b"(" + page[-1][0]

    def _page(self, low: bytes, high: bytes) -> list[tuple[bytes, bytes]]:
        keys = self._client.zrangebylex(self._keys, low, high, start=0, num=PAGE)
        stamp, *values = self._client.hmget(self._rows, [STAMP, *keys])
        self._check(stamp)
        if self._stamp is not None:
            self._check_whole(None in values)
        return list(zip(keys, values, strict=True))

    def _check_whole(self, missing: bool) -> None:
        with self._client.pipeline(transaction=True) as work:
            work.hlen(self._rows)
            work.zcard(self._keys)
            work.hexists(self._rows, OFFSET)
            fields, keys, offset = work.execute()
        if missing or fields != keys + OWN - (not offset):
            raise TableError(
                f"the table {self.name} has lost rows; set the server's maxmemory-policy to "
                "noeviction and give it memory. The table is rebuilt from the changelog"
            )

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        last = dict(rows)
        put = {key: value for key, value in last.items() if value is not None}
        gone = [key for key, value in last.items() if value is None]

        def work(transaction: Any) -> None:
            if gone:
                transaction.hdel(self._rows, *gone)
                transaction.zrem(self._keys, *gone)
            if put:
                transaction.zadd(self._keys, dict.fromkeys(put, 0))
                transaction.hset(self._rows, mapping=put)
            if offset is not None:
                transaction.hset(self._rows, OFFSET, b"%d" % offset)

        self._do("write", lambda: self._change(work))
        if offset is not None:
            self.offset = offset

    def clear(self) -> None:
        self._do("empty", lambda: self._change(lambda t: t.unlink(self._rows, self._keys)))
        self.offset = None

    def _change(self, work: Callable[[Any], None]) -> None:
        """Do it in one transaction with the stamp, if the table is as it was left."""
        if self._stamp is None:
            raise unclaimed(self.name)
        stamp = self._stamp.next()
        with self._client.pipeline(transaction=True) as transaction:
            transaction.watch(self._rows)
            self._check(transaction.hget(self._rows, STAMP))
            transaction.multi()
            work(transaction)
            transaction.hset(self._rows, STAMP, str(stamp))
            transaction.execute()
        self._stamp = stamp

    def _check(self, stamp: bytes | None) -> None:
        found = None if stamp is None else stamp.decode()
        if self._stamp is not None and found != str(self._stamp):
            raise self._stamp.mismatch(self.name, found)

    def _do(self, doing: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except AskError as error:  # it is MOVED, mostly
            raise TableUnavailable(
                f"cannot {doing} the table {self.name}: this is a node of a Redis Cluster; name a "
                "server that is none (a replicated one will do)"
            ) from error
        except RedisError as error:
            raise (TableUnavailable if _is_away(error) else TableError)(
                f"cannot {doing} the table {self.name}: {_answer(error)}; see that the "
                "server runs, can be reached and has memory left. What is missing is caught up "
                "from the changelog"
            ) from error

    def close(self) -> None:
        """Let go of the table; the rows stay in Redis."""


def open_redis(url: str, group: str) -> RedisStore:
    """The store in the database of `redis://host:port/number`, `rediss://` for TLS.

    `redis+unix:///run/redis.sock?db=0` is a server's Unix socket.
    """
    try:
        client = redis.Redis.from_url(
            url.removeprefix("redis+"),
            socket_connect_timeout=CONNECT,
            socket_timeout=ANSWER,
            decode_responses=False,
        )
    except ValueError as error:
        raise UrlError(
            f"{without_password(url)!r}: {said(error, url)}; write redis://HOST:PORT/NUMBER, with "
            "%40 for @, %2F for / and so on in a password"
        ) from None
    return RedisStore(client, group, without_password(url))
