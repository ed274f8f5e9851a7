"""What an event of a linked source says of its predecessor."""

import copy
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from topology.errors import DeclarationError, Malformed, described
from topology.event import Damaged, Event, LinkedEvent, Message, linked_event
from topology.fields import Header, RecordKey, getter
from topology.inspector import (
    Compiles,
    Found,
    Inspect,
    InspectorFunction,
    Normalised,
    compile_inspector,
)
from topology.normalise import sequence_number
from topology.sequences import Contiguous, Linked, Sequence

Link = Callable[[Event], int | None]
"""An event → its predecessor's sequence, None if it has none; raises Malformed."""


def compile_link(linked: Linked) -> Link:
    """The predecessor of an event as one function."""
    raw = _raw(linked)

    def link(event: Event) -> int | None:
        found = raw(event)
        if found is None or found == linked.first:
            return None
        try:
            previous = sequence_number(found, "revision")
        except Malformed as reason:
            raise Malformed(f"the predecessor: {reason}") from None
        if previous >= event.sequence:
            raise Malformed(
                f"the predecessor {previous} is not below the event's own sequence "
                f"{event.sequence}: sequences must grow along the chain"
            )
        return previous

    return link


def lenient_link(linked: Linked) -> Link:
    """The same for events that were understood once: what cannot be read now is no predecessor.

    Of an event that was made with its predecessor it is that one.
    """
    link = compile_link(linked)

    def lenient(event: Event) -> int | None:
        if event.__class__ is LinkedEvent:
            return event.previous
        with suppress(Malformed):
            return link(event)
        return None

    return lenient


def with_links(events: list[Event], link: Link | None) -> list[Event]:
    """Events with the predecessors that they have now; as they are where there is no `link`."""
    if link is None:
        return events
    return [
        linked_event(e.stream, e.sequence, e.kind, e.content, e.message, e.arrived, link(e))
        for e in events
    ]


def link_of(sequence: Sequence) -> Link | None:
    """How a source's events name their predecessors, None if they do not."""
    return lenient_link(sequence) if isinstance(sequence, Linked) else None


def _raw(linked: Linked) -> Callable[[Event], Any]:
    previous = linked.previous
    if isinstance(previous, str | RecordKey | Header):
        get = getter(previous, "previous")

        def from_field(event: Event) -> Any:
            # A first event need not have the field.
            with suppress(Malformed):
                return get(event.content, event.message)
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


def compile_for(sequence: Sequence, inspector: Compiles | InspectorFunction) -> Inspect:
    """A source's inspector as one function.

    What was damaged on its way is malformed. In a linked source the sequence may be a revision, and
    what has a bad link is malformed.
    Raises DeclarationError where it is contiguous and the inspector's sequences cannot be.
    """
    if isinstance(sequence, Contiguous) and isinstance(inspector, Normalised) and inspector.holes:
        raise DeclarationError(
            f"inspector={inspector!r} with {sequence}: its sequences are {inspector.holes}; a "
            "contiguous stream would wait for ever at the first hole"
        )
    if not isinstance(sequence, Linked):
        return _of_whole(compile_inspector(inspector))
    if getattr(inspector, "sequence_type", None) == "auto":
        inspector = copy.copy(inspector)
        inspector.sequence_type = "revision"  # type: ignore[union-attr]
    plain, link = compile_inspector(inspector), compile_link(sequence)

    def inspect(message: Message) -> Found | None:
        found = plain(message)
        if found is not None:
            link(Event(*found, message))
        return found

    return _of_whole(inspect)


def _of_whole(inspect: Inspect) -> Inspect:
    """An inspector that is given no message of which a part could not be read."""

    def whole(message: Message) -> Found | None:
        if message.__class__ is Damaged:
            raise Malformed(message.reason)
        return inspect(message)

    whole.__wrapped__ = inspect  # type: ignore[attr-defined]
    return whole
