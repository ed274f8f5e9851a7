"""The stage in which handlers work side by side, and are committed in order; what comes before it.

A view with workers is two stages. The first orders events as any view does, and writes them to its
arrivals topic instead of handling them. The second reads that topic. `Topology.parallel` is the
second alone, over a topic of somebody else's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from topology.declaration.emits import Emitting
from topology.declaration.orders import contiguous
from topology.declaration.parallel_work import ParallelWork
from topology.declaration.source import Source
from topology.declaration.view import View
from topology.inspectors.inspector import Inspected
from topology.model.changes import Emit
from topology.model.errors import Malformed
from topology.model.event import Damaged, Event, Message, Record, event_of
from topology.model.origin_headers import ORIGIN, ORIGIN_KEY, origin, original

ARRIVED = "sequitur-arrived"
"""Header: when an event was taken in (ms), as it is in the arrivals topic."""


RELEASE = "sequitur-release"
"""Header: a record of the arrivals topic that lets a parked stream go on; see `Release`."""
FORCED_DROP = b"drop forced"


@dataclass(frozen=True, slots=True)
class Release:
    """An operator lets a parked stream go on, at this place of its order.

    without_first: the failed event goes to the dead topic; else it is handled again. dropped: the
    stream is forgotten; forced, what is parked of it goes to the dead topic, else it must be none.
    """

    stream: str
    without_first: bool
    dropped: bool = False
    forced: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OrderedStage:
    """The second stage of a view with workers, or the only one of `Topology.parallel`.

    Attributes:
        view: the handler, its policies, and its output.
        work: how it works side by side.
        topic: the topic that it reads.
        partitions: of that topic.
        arrivals: whether a first stage fills the topic.
    """

    view: View
    work: ParallelWork
    topic: str
    partitions: int
    arrivals: bool

    @property
    def name(self) -> str:
        """The name of its table."""
        return f"{self.view.name}.arrivals" if self.arrivals else self.view.name

    def event(self, record: Message) -> Event | Release:
        """The event of a record.

        Raises:
            Malformed: what is in the topic is no event.
        """
        if isinstance(record, Damaged):
            raise Malformed(record.reason)
        message, arrived = record, record.timestamp
        if self.arrivals:
            if record.headers and record.headers[-1][0] == RELEASE:
                stream = (record.value or b"").decode("utf-8", "replace")
                command = record.headers[-1][1]
                dropped, forced = command in (b"drop", FORCED_DROP), command == FORCED_DROP
                return Release(stream, command == b"unpark", dropped, forced)
            message = original(record)
            *headers, last = message.headers or [("", b"")]
            if isinstance(message, Record) and last[0] == ARRIVED and _is_time(last[1]):
                message.headers, arrived = headers, int(last[1])
        found = self.view.of.inspect_whole(message)
        if found is None:
            # It did when the event arrived: another inspector was declared since.
            raise Malformed("the source's inspector does not know it any more")
        return event_of(*found, message, arrived)

    def renewed(self, event: Event) -> Event:
        """The event as it was before a handler had it."""
        try:
            found = self.view.of.inspect_whole(event.message)
        except Malformed:
            found = None
        return event if found is None else event_of(*found, event.message, event.arrived)

    def stream(self, event: Event) -> str | None:
        """The stream that orders an event, None for a message without a key."""
        return event.stream if self.arrivals or event.message.key is not None else None

    def state_given(
        self, states: dict[str, dict[str, Any]], events: Sequence[Event]
    ) -> tuple[dict[str, Any], ...]:
        """What a handler is given besides its event or batch: nothing, a state, or all of them."""
        if not self.view.stateful:
            return ()
        batch = self.work.batch
        several = batch is not None and batch.of == "any"
        return (states if several else states[events[0].stream],)


def stage_of(view: View) -> OrderedStage | None:
    """The second stage of a view, None if it has no workers."""
    if view.work is None:
        return None
    alone = view.work.scope != "partition"
    partitions = 1 if alone else view.of.partitions
    return OrderedStage(view, view.work, view.arrivals_topic, partitions, True)


def first_stage(view: View) -> View:
    """What a worker runs of a view with workers in the place of it: it writes down what arrives."""
    topic, alone = view.arrivals_topic, view.work is not None and view.work.scope != "partition"

    def arrive(event: Event) -> Iterator[Emit]:
        message = event.message
        headers = [
            *message.headers,
            (ARRIVED, b"%d" % event.arrived),
            (ORIGIN, origin(message)),
        ]
        if message.key is not None:
            headers.append((ORIGIN_KEY, message.key))
        # Without a key it goes to the topic's only partition, whichever this one is.
        yield Emit(topic, None if alone else event.stream, message.value, tuple(headers))

    return replace(
        view,
        handler=arrive,
        stateful=False,
        is_async=False,
        closing=view.closing,
        timeout=None,
        emitting=Emitting(view.name, [topic]),
        paths=(),
    )


def _is_time(value: bytes | None) -> bool:
    """Whether a header says milliseconds. Kafka lets its value be null, and have any length."""
    return value is not None and len(value) <= 18 and value.isdigit()


def plain_message(message: Message) -> Inspected:
    """The inspector of `Topology.parallel`: a message is an event of its key's stream.

    One without a key is a stream of its own.
    """
    key = message.key
    if key is None:
        stream = f"{message.partition}/{message.offset}"
        return Inspected(stream, message.offset, None, message.value)
    try:
        return Inspected(key.decode(), message.offset, None, message.value)
    except UnicodeDecodeError:
        raise Malformed("the key is no UTF-8 text, which names a stream") from None


def plain_source(topology: str, name: str, topic: str, partitions: int) -> Source:
    """The source of `Topology.parallel`."""
    return Source(
        name=name,
        topology=topology,
        topics=(topic,),
        inspector=plain_message,
        inspect=plain_message,
        sequence=contiguous(0),
        keyed=True,
        partitions=partitions,
        unknown="pass",
    )
