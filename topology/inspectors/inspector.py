"""What an inspector is: it finds and normalises stream, sequence and kind in a source's format."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

from topology.inspectors.normalise import SequenceType, sequence_number, stream_id
from topology.inspectors.stream_ids import StreamIds
from topology.model.dotted import load
from topology.model.errors import DeclarationError, Malformed, described
from topology.model.event import Event, Message
from topology.model.names import misfit, one_argument
from topology.model.printable import is_unicode


class Inspected(NamedTuple):
    """What an inspector finds in a message; an inspector function may return it.

    Args:
        stream: the entity's id, before normalisation.
        sequence: what orders the events of the stream, before normalisation.
        kind: what happened, or None.
        content: what handlers get as `event.content`.
    """

    stream: Any
    sequence: Any
    kind: Any = None
    content: Any = None


Found = tuple[str, int, str | None, Any]
"""Stream, sequence, kind, content; normalised. A plain tuple: there is one per message."""

Inspect = Callable[[Message], Found | None]
"""A compiled inspector: None means the message is unknown; raises Malformed with the reason."""

Several = Callable[[Iterator[Message], int, int, Callable[[Event], None]], Message | None]
"""(messages, lowest sequence, now, append): appends the events of messages up to one that is not
as most are, which it returns; None at the end. A compiled inspector may have it as `several`."""

InspectorFunction = Callable[[Message], tuple[Any, Any, Any, Any] | None]
"""A user's own inspector: message → Inspected or a tuple of the same four, None for unknown."""


@runtime_checkable
class Compiles(Protocol):
    """An inspector as an object, which has arguments of its own.

    `compile()` is called once, where the source is declared, and returns an inspector function.
    """

    def compile(self) -> InspectorFunction: ...


AnyInspector = Compiles | InspectorFunction | str
"""An object that compiles, a function of a message, or 'module:name' of either."""


class Normalised(ABC):
    """An inspector whose findings are normalised, and which raises nothing but Malformed.

    holes: what its sequences are and how to declare them, where they grow but cannot count.
    stream_ids: what kind of ids its streams have.
    """

    holes: str = ""
    stream_ids: StreamIds = StreamIds()

    @abstractmethod
    def compile(self) -> Inspect:
        """Return the inspector as one function of a message."""


def resolved(inspector: AnyInspector, what: str = "inspector") -> Compiles | InspectorFunction:
    """The inspector itself where 'module:name' names it: a function, a class or an instance.

    A class is called without arguments. what: whose inspector it is, named in errors.
    Raises DeclarationError for what is no inspector.
    """
    found: Any = inspector
    if isinstance(inspector, str):
        found = load(what, inspector, "an Inspector(…) or a function of a message")
    given = f"{what}={inspector!r}"
    if isinstance(found, type):
        try:
            found = found()
        except Exception as error:
            raise DeclarationError(
                f"{given}: the class cannot be made without arguments "
                f"({described(error)}); name an instance of it, or a function"
            ) from error
    if isinstance(found, Compiles) and misfit(found.compile, 0) is None:
        return found
    if not callable(found):
        raise DeclarationError(f"{given}: give an Inspector(…) or a function of a message")
    one_argument(given, found, "message")
    function: InspectorFunction = found
    return function


def compile_inspector(inspector: AnyInspector, sequence_type: SequenceType = "auto") -> Inspect:
    """An inspector as one function that normalises what it finds.

    What a function returns is normalised like the fields of a declared inspector; None says that
    the message is unknown; any exception in it makes the message malformed.

    Args:
        inspector: it.
        sequence_type: how sequences are read of which it does not say it.
    """
    found = resolved(inspector)
    if isinstance(found, Normalised):
        if getattr(found, "sequence_type", "") == "auto" != sequence_type:
            found = copy.copy(found)
            found.sequence_type = sequence_type  # type: ignore[attr-defined]
        return found.compile()
    function = found.compile() if isinstance(found, Compiles) else found
    if not callable(function):
        raise DeclarationError(
            f"inspector={inspector!r}: its compile() returned {function!r}; "
            "it must return a function of a message"
        )
    return _normalising(function, sequence_type)


def kind_text(value: Any) -> str | None:
    """A kind as text; None where there is none. Raises Malformed."""
    if value is None:
        return None
    if value.__class__ is str:
        if not value.isascii() and not is_unicode(value):
            raise Malformed("the kind has an unpaired surrogate, which no UTF-8 text has")
        kind: str = value
        return kind
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | float) or value.__class__ is int:
        return str(value)
    raise Malformed(f"the kind is a {type(value).__name__}; it must be text or a number")


def _normalising(function: InspectorFunction, sequence_type: SequenceType) -> Inspect:
    def inspect(message: Message) -> Found | None:
        try:
            found = function(message)
            if found is None:
                return None
            stream, sequence, kind, content = found
            number = sequence_number(sequence, sequence_type)
            return stream_id(stream), number, kind_text(kind), content
        except Malformed:
            raise
        except BaseException as error:
            raise Malformed(f"the inspector failed: {described(error)}") from error

    return inspect
