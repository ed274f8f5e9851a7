"""An event as a handler has it that works beside others: hurried, and known over its attempts."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from topology.model.event import Draft, Event, Message


class Hurry:
    """Whether later events wait for this one. Threads may ask, tasks may also wait for it."""

    __slots__ = ("_set", "_waiting")

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        """Whether it was told."""
        return self._set

    def set(self) -> None:
        """Tell it; the runtime does, on its own loop."""
        self._set = True
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def wait(self) -> None:
        """Return as soon as it is told."""
        if not self._set:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future


class Services(Protocol):
    """What a worker does for an attempt besides running it."""

    @property
    def connection(self) -> Any:
        """A connection to the view's database."""

    def compensate(self, function: str, arguments: Any) -> Any:
        """Write down what is to be done if the attempt is rolled back."""

    def begins(self) -> None:
        """The attempt, which waited to be pulled, begins."""


class _Done:
    """Nothing to wait for."""

    def __await__(self) -> Iterator[None]:
        return iter(())


_DONE = _Done()


@dataclass(slots=True, eq=False)
class _WorkDraft(Draft):
    view: str = ""
    urgency: Hurry | None = None
    services: Services | None = None


class WorkEvent(_WorkDraft, Event[Any]):
    """An event of a view with workers: one attempt at it.

    Attributes:
        hurry: whether later events wait for this one.
        idempotency_key: the same over all attempts, and another one in each view.
        connection: to the view's database, committed at the event's turn.
    """

    __slots__ = ()

    @property
    def hurry(self) -> Hurry:
        """Whether later events wait for this one."""
        assert self.urgency is not None
        return self.urgency

    @property
    def idempotency_key(self) -> str:
        """The topology, the view, and where the message lies: topic, partition, offset."""
        return f"{self.view}/{_place(self.message)}"

    @property
    def connection(self) -> Any:
        """A connection to the database that the view declares, in the event's transaction.

        It has `execute(statement, parameters)`, to be awaited in an async handler.

        Raises:
            RuntimeError: the view declares no database, or does not run in a worker.
        """
        if self.services is None:
            raise RuntimeError(
                f"view {self.view}: nothing is lent here; declare database='NAME' for the view, "
                "and run it in a worker"
            )
        return self.services.connection

    def compensate(self, function: str, arguments: Any = None) -> Any:
        """Write down durably what is to be called if this attempt is rolled back or fails.

        Call it before what it compensates; await it in an async handler.

        Args:
            function: a name in the view's `compensations`.
            arguments: for it, as JSON.

        Raises:
            ValueError: there is no such function.
            TypeError: the arguments are not JSON.
        """
        # Outside of a worker nothing is rolled back.
        return _DONE if self.services is None else self.services.compensate(function, arguments)


def work_event(event: Event[Any], view: str, services: Services | None = None) -> WorkEvent:
    """An attempt at an event. view: `topology.view`, for its idempotency key."""
    made: Any = _WorkDraft(
        event.stream, event.sequence, event.kind, event.content, event.message, event.arrived,
        view, Hurry(), services,
    )  # fmt: skip
    made.__class__ = WorkEvent
    found: WorkEvent = made
    return found


def _place(message: Message) -> str:
    return f"{message.topic}/{message.partition}/{message.offset}"
