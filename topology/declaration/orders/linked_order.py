"""Links: each event names its predecessor, as document revisions do."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from topology.declaration.orders.stream_order import Link, Previous, StreamOrder, of_whole
from topology.inspectors.alternatives import FirstOf
from topology.inspectors.fields import Field, Header, RecordKey, getter
from topology.inspectors.inspector import (
    Compiles,
    Found,
    Inspect,
    InspectorFunction,
    Normalised,
    compile_inspector,
)
from topology.inspectors.normalise import SequenceType, sequence_number
from topology.model.errors import DeclarationError, Malformed, described
from topology.model.event import Event, LinkedEvent, Message, linked_event
from topology.model.names import one_argument
from topology.sequencer.linked import LinkedOrdering


@dataclass(frozen=True, slots=True)
class Linked(StreamOrder):
    """Each event names its predecessor; sequences grow along the chain.

    reads: how predecessors are read; a source sets it.
    """

    previous: Field | Previous = field()
    first: Any = None
    reads: SequenceType = field(default="revision", repr=False)
    links: ClassVar[bool] = True

    def follows(self, event: Event, last: int | None) -> bool:
        previous = self.link()(event)
        return previous is None if last is None else previous is not None and previous <= last

    def ordering(self, **policies: Any) -> LinkedOrdering:
        return LinkedOrdering(previous=self.link(), **policies)

    def link(self) -> Link:
        """The predecessor of an event; what cannot be read now is none.

        Of an event that was made with its predecessor it is that one.
        """
        link = self.strict_link()

        def lenient(event: Event) -> int | None:
            if event.__class__ is LinkedEvent:
                return event.previous
            with suppress(Malformed):
                return link(event)
            return None

        return lenient

    def strict_link(self) -> Link:
        """The predecessor of an event as one function, which raises Malformed for a bad one."""
        raw, first, reads = _raw(self.previous), self.first, self.reads
        # Headers and keys are bytes.
        raw_first = first if first is None else str(first).encode("utf-8", "replace")

        def link(event: Event) -> int | None:
            found = raw(event)
            if found in (None, first, raw_first):
                return None
            try:
                previous = sequence_number(found, reads)
            except Malformed as reason:
                raise Malformed(f"the predecessor: {reason}") from None
            if previous >= event.sequence:
                raise Malformed(
                    f"the predecessor {previous} is not below the event's own sequence "
                    f"{event.sequence}: sequences must increase along the chain"
                )
            return previous

        return link

    def read_by(self, inspector: Compiles | InspectorFunction) -> "Linked":
        """The same, with predecessors that are read as the inspector reads sequences."""
        types = _types(inspector)
        if "timestamp" in types and len(types) > 1:
            raise DeclarationError(
                f"linked(previous={self.previous!r}): some inspectors of {inspector!r} have "
                "sequence_type='timestamp', and a predecessor is read in one way; declare all of "
                "them with it, or none"
            )
        return replace(self, reads="timestamp" if "timestamp" in types else "revision")

    def compile(self, inspector: Compiles | InspectorFunction) -> Inspect:
        """The same, but a sequence may be a revision, and what has a bad link is malformed."""
        plain, link = compile_inspector(inspector, "revision"), self.strict_link()

        def inspect(message: Message) -> Found | None:
            found = plain(message)
            if found is not None:
                link(Event(*found, message))
            return found

        return of_whole(inspect)


def linked(previous: Field | Previous, first: Any = None) -> Linked:
    """Order by links: each event names its predecessor, as document revisions do.

    Sequences must grow along the chain: numbers, times, or revisions such as `12-abc`, whose number
    leads.

    Args:
        previous: where the predecessor's sequence is: a field path, `key()`, `header("name")`, or a
            function of the event.
        first: the value that the first event of a stream has there, besides null or nothing at all.

    Raises:
        DeclarationError: a value is wrong.
    """
    if isinstance(previous, str | RecordKey | Header):
        getter(previous, "previous")
    elif not callable(previous):
        raise DeclarationError(
            f"linked(previous={previous!r}): give a field path such as 'meta.previous', key(), "
            "header('name'), or a function of the event"
        )
    else:
        one_argument(f"linked(previous={previous!r})", previous, "event")
    return Linked(previous, first)


def with_links(events: list[Event], link: Link | None) -> list[Event]:
    """Events with the predecessors that they have now; as they are where there is no `link`."""
    if link is None:
        return events
    return [
        linked_event(e.stream, e.sequence, e.kind, e.content, e.message, e.arrived, link(e))
        for e in events
    ]


def _types(inspector: Compiles | InspectorFunction) -> set[str]:
    """How an inspector reads sequences; of several, how each of them does."""
    if isinstance(inspector, FirstOf):
        return set[str]().union(*map(_types, inspector.inspectors))
    return {
        getattr(inspector, "sequence_type", "auto") if isinstance(inspector, Normalised) else "auto"
    }


def _raw(previous: Field | Previous) -> Callable[[Event], Any]:
    if isinstance(previous, str | RecordKey | Header):
        get = getter(previous, "previous")

        def from_field(event: Event) -> Any:
            try:
                # A first event need not have the field.
                with suppress(Malformed):
                    return get(event.content, event.message)
            except ValueError as error:
                # The body is decoded only now, and it cannot be.
                raise Malformed(f"the predecessor: {error}") from None
            return None

        return from_field
    function = previous

    def from_function(event: Event) -> Any:
        try:
            return function(event)
        except Malformed:
            raise
        except BaseException as error:
            raise Malformed(f"the function of the predecessor failed: {described(error)}") from None

    return from_function
