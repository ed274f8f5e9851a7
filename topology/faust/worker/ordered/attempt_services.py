"""What an attempt's event can do besides being handled: SQL at its turn, compensations."""

import asyncio
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import Executable, Result

from topology.engine.output.record_formatter import OUTPUT_LIMIT
from topology.faust.worker.ordered.lent_connections import LentConnections
from topology.ordered_commit import Grant

if TYPE_CHECKING:
    from topology.faust.worker.ordered.ordered_runner import OrderedRunner


class AsyncConnection:
    """What an async handler has as `event.connection`."""

    def __init__(self, lent: LentConnections, grant: Grant) -> None:
        self._lent = lent
        self._grant = grant

    async def execute(self, statement: str | Executable, parameters: Any = None) -> Result[Any]:
        """Run a statement in the event's transaction.

        Args:
            statement: SQL with parameters as `:name`, or a statement of SQLAlchemy's.
            parameters: name → value, or a list of these.

        Returns:
            SQLAlchemy's result, whose rows are all read.

        Raises:
            sqlalchemy.exc.DBAPIError: the database refuses it; the attempt fails, also where the
                handler catches this.
            RolledBack: the attempt was rolled back.
        """
        return await self._lent.execute(self._grant, statement, parameters)


class ThreadConnection:
    """What a plain handler has as `event.connection`."""

    def __init__(
        self, lent: LentConnections, grant: Grant, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._lent = lent
        self._grant = grant
        self._loop = loop

    def execute(self, statement: str | Executable, parameters: Any = None) -> Result[Any]:
        """Run a statement in the event's transaction, as `AsyncConnection.execute` does."""
        work = self._lent.execute(self._grant, statement, parameters)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class AttemptServices:
    """Of one attempt. loop: the runner's, where the handler is in a thread; key: the event's."""

    __slots__ = ("_grant", "_loop", "_runner", "key")

    def __init__(
        self, runner: "OrderedRunner", grant: Grant, loop: asyncio.AbstractEventLoop | None
    ) -> None:
        self._runner = runner
        self._grant = grant
        self._loop = loop
        self.key = ""

    def begins(self) -> None:
        """Somebody has taken the event that was to be pulled: its time limit begins."""
        self._runner.core.begins(self._grant, time.monotonic())

    @property
    def connection(self) -> AsyncConnection | ThreadConnection:
        """A connection to the view's database. Raises RuntimeError where it declares none."""
        lent = self._runner.lent
        if lent is None:
            raise RuntimeError(
                f"view {self._runner.stage.view.name}: it declares no database; give it "
                "database='NAME', and the worker the URL in SEQUITUR_DATABASE_NAME"
            )
        if self._loop is None:
            return AsyncConnection(lent, self._grant)
        return ThreadConnection(lent, self._grant, self._loop)

    def compensate(self, function: str, arguments: Any) -> Coroutine[Any, Any, None] | None:
        """Make an intent durable: at once in a thread, else when what it returns is awaited."""
        compensations = self._runner.compensations
        declared = self._runner.stage.work.compensations
        if compensations is None or function not in declared:
            known = ", ".join(map(repr, declared)) or "none"
            raise ValueError(
                f"event.compensate({function!r}): view {self._runner.stage.view.name!r} declares "
                f"no such compensation (it has {known}); name it in compensations="
            )
        if len(raw := orjson.dumps(arguments)) > OUTPUT_LIMIT:
            raise ValueError(
                f"event.compensate({function!r}): the arguments have {len(raw)} bytes; the limit "
                f"is {OUTPUT_LIMIT}"
            )
        made = compensations.intend(self._grant, function, raw, self.key)
        if self._loop is None:
            return made
        asyncio.run_coroutine_threadsafe(made, self._loop).result()
        return None
