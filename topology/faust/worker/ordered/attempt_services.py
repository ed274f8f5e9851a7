"""What an attempt's event can do besides being handled: SQL at its turn, compensations."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import orjson

from topology.faust.worker.ordered.lent_connections import AsyncConnection, ThreadConnection
from topology.ordered_commit import Grant

if TYPE_CHECKING:
    from topology.faust.worker.ordered.ordered_runner import OrderedRunner


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
        made = compensations.intend(self._grant, function, orjson.dumps(arguments), self.key)
        if self._loop is None:
            return made
        asyncio.run_coroutine_threadsafe(made, self._loop).result()
        return None
