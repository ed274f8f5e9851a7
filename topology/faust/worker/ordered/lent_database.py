"""The database whose connections are lent: what is done there, in threads."""

import asyncio
import hashlib
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection, Executable, Result, event, text
from sqlalchemy.exc import OperationalError

from stores.db.dialect import begin_writing
from stores.db.engines import open_engine
from topology.faust.worker.handler_threads import HandlerThreads
from topology.faust.worker.ordered.lease import CRASH, DatabaseAway, Lease, or_away
from topology.model.printable import printable

LOCK = 10
"""Seconds that a statement waits for a lock that nobody gives up, as of another process."""
STATEMENT = 60
"""Seconds that a statement may take."""
IDLE = 300
"""Seconds after which the server ends a transaction of a worker that hangs."""

_BEGIN = text(
    "SELECT pg_backend_pid(), set_config('lock_timeout', :lock, true), "
    "set_config('statement_timeout', :statement, true), "
    "set_config('idle_in_transaction_session_timeout', :idle, true), "
    "set_config('application_name', :name, true)"
)
_LIMITS = {"lock": f"{LOCK}s", "statement": f"{STATEMENT}s", "idle": f"{IDLE}s"}
_BLOCKERS = text("SELECT unnest(pg_blocking_pids(:pid))")
_END_FORMER = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE starts_with(application_name, :partition) AND application_name <> :name "
    "AND datname = current_database() AND usename = current_user"
)

_NOTICES = "notices"
"""Of a connection's `info`: see `Lease`."""

Found = TypeVar("Found")


class LentDatabase:
    """The engine of a partition and its threads; what is lost there is a DatabaseAway.

    Args:
        url: the database, as `stores.db.engines.open_engine` takes it.
        view: `topology.view`.
        workers: of the view.
        partition: whose it is, the same for each of its owners.
        owner: no other one has the same.

    Attributes:
        most: transactions side by side: as many as workers, in SQLite one.
    """

    def __init__(self, url: str, view: str, workers: int, partition: str, owner: bytes) -> None:
        digest = hashlib.blake2b(partition.encode(), digest_size=8).hexdigest()
        self._partition = f"sequitur {digest} "
        self._limits = {**_LIMITS, "name": f"{self._partition}{owner.hex()[:16]}"}
        self._engine = open_engine(url, max_overflow=2, pool_size=workers)
        self._postgresql = self._engine.dialect.name == "postgresql"
        if self._postgresql:
            event.listen(self._engine, "connect", _keep_notices)
            # Under a stricter one, each turn would fail for the sake of the one before it.
            self._engine = self._engine.execution_options(isolation_level="READ COMMITTED")
        self.most = workers if self._postgresql else 1
        self._threads = HandlerThreads(2 * workers + 2, f"sequitur {view} SQL")

    def in_thread(
        self, work: Callable[[], Found], notices: Collection[str] = ()
    ) -> asyncio.Future[Found]:
        """Do it in a thread. Raises DatabaseAway."""
        return asyncio.wrap_future(self._threads.submit(partial(or_away, work, notices)))

    async def in_transaction(self, work: Callable[[Connection], Found]) -> Found:
        """Do it in a transaction of its own."""

        def run() -> Found:
            with self._engine.begin() as connection:
                if self._postgresql:
                    connection.execute(_BEGIN, self._limits)
                return work(connection)

        return await self.in_thread(run)

    async def end_former(self) -> None:
        """End the transactions of the partition's former owner.

        Its host may be gone without a word: the server would keep their locks for IDLE seconds.
        """
        if self._postgresql:
            named = {"partition": self._partition, "name": self._limits["name"]}
            await self.in_transaction(lambda connection: connection.execute(_END_FORMER, named))

    def begun(self, lease: Lease) -> asyncio.Future[None]:
        """Give a lease its connection, with a transaction."""

        def begin() -> None:
            connection = lease.connection = self._engine.connect()
            lease.notices = connection.info.get(_NOTICES, ())
            if self._postgresql:
                lease.pid = connection.execute(_BEGIN, self._limits).scalar()
            else:
                try:
                    begin_writing(connection)
                except OperationalError as error:
                    # Whoever has the file is no attempt: those wait for each other before this.
                    raise DatabaseAway(printable(str(error.orig), 1000)) from error

        return self.in_thread(begin)

    def executed(
        self, lease: Lease, statement: Executable, parameters: Any
    ) -> asyncio.Future[Result[Any]]:
        """Run a statement; all its rows are read."""

        def execute() -> Result[Any]:
            assert lease.connection is not None
            result = lease.connection.execute(statement, parameters)
            return result.freeze()() if result.returns_rows else result

        return self.in_thread(execute, lease.notices)

    def committed(self, lease: Lease, add: Callable[[Connection], None]) -> asyncio.Future[None]:
        """Commit a lease's transaction, with what `add` does in it."""

        def commit() -> None:
            connection = lease.connection
            assert connection is not None
            try:
                or_away(partial(add, connection), lease.notices)
            except DatabaseAway as error:
                # Where it is there and takes nothing, the partition has to wait for it.
                error.undone = error.ended
                raise
            connection.commit()

        return self.in_thread(commit, lease.notices)

    def blockers(self, pid: int | None) -> asyncio.Future[set[int]]:
        """Those whose locks this one waits for."""

        def look() -> set[int]:
            with self._engine.connect() as connection:
                return set(connection.execute(_BLOCKERS, {"pid": pid}).scalars())

        return self.in_thread(look)

    async def close(self) -> None:
        """Let threads and connections go."""
        self._threads.close()
        await asyncio.to_thread(self._engine.dispose)


def _keep_notices(driver: Any, record: Any) -> None:
    """Of what the server says besides, keep that another of its processes has crashed."""
    notices = record.info[_NOTICES] = set[str]()

    def note(notice: Any) -> None:
        if notice.sqlstate == CRASH:
            notices.add(CRASH)

    driver.add_notice_handler(note)
