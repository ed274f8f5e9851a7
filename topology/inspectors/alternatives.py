"""Several formats on one topic: the first inspector that knows a message has it."""

from topology.inspectors.inspector import (
    AnyInspector,
    Found,
    Inspect,
    Normalised,
    compile_inspector,
    resolved,
)
from topology.inspectors.normalise import SequenceType
from topology.inspectors.stream_ids import StreamIds
from topology.model.errors import DeclarationError
from topology.model.event import Message


class FirstOf(Normalised):
    """Made by `first_of`."""

    def __init__(self, *inspectors: AnyInspector) -> None:
        if not inspectors:
            raise DeclarationError("first_of(): name at least one inspector")
        self.inspectors = tuple(map(resolved, inspectors))
        self.sequence_type: SequenceType = "auto"
        told = (one.holes for one in self.inspectors if isinstance(one, Normalised))
        self.holes = next(filter(None, told), "")
        types = (one.stream_ids for one in self.inspectors if isinstance(one, Normalised))
        self.stream_ids = next(types, StreamIds())

    def compile(self) -> Inspect:
        """The inspectors as one function."""
        each = tuple(compile_inspector(one, self.sequence_type) for one in self.inspectors)

        def inspect(message: Message) -> Found | None:
            for one in each:
                found = one(message)
                if found is not None:
                    return found
            return None

        return inspect

    def __repr__(self) -> str:
        names = (getattr(one, "__name__", None) or repr(one) for one in self.inspectors)
        return f"first_of({', '.join(names)})"


def first_of(*inspectors: AnyInspector) -> FirstOf:
    """Combine inspectors: the first one that does not call a message unknown decides.

    A message that an inspector calls malformed is malformed, and the others are not asked. An
    inspector that knows every message, such as `Inspector`, therefore comes last. A stream's id, as
    a person writes it, is read by the first inspector that declares what its ids are.

    Args:
        inspectors: inspectors, functions of a message, or `"module:name"` of either.

    Raises:
        DeclarationError: one of them is no inspector.
    """
    return FirstOf(*inspectors)
