"""What a type checker knows of handlers: `Event[Order]`, `State[Totals]`, what may be yielded."""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from topology.model.changes import Output
from topology.model.event import Event

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    Kept = DefaultedTypeVar("Kept", default=dict[str, Any])
else:
    Kept = TypeVar("Kept")

State = Annotated[Kept, "the stream's own dictionary"]
"""A handler's second argument: `State[Totals]` of a TypedDict, `State` for any dictionary."""

Cells = MutableMapping[str, Any]
"""A handler's third argument: values of the stream by key, of which only changed ones are written.
"""

Outputs = Iterable[Output] | AsyncIterable[Output] | Awaitable[Iterable[Output] | None] | None
"""What a handler may return; a generator yields one output after the other."""

BatchOutput = Output | tuple[Event[Any], Output]
BatchOutputs = (
    Iterable[BatchOutput] | AsyncIterable[BatchOutput] | Awaitable[Iterable[BatchOutput] | None]
) | None
"""What a handler may return that takes a batch: an effect, or (event, effect)."""

AnyHandler = (
    Callable[[Event[Any]], Outputs]
    | Callable[[Event[Any], Any], Outputs]
    | Callable[[Event[Any], Any, MutableMapping[str, Any]], Outputs]
    | Callable[[list[Event[Any]]], BatchOutputs]
    | Callable[[list[Event[Any]], Any], BatchOutputs]
)
HandlerType = TypeVar("HandlerType", bound=AnyHandler)
"""A handler as it is written: decorating it as a view does not change its type."""
