"""Call a view's handler for events that are ready, and put what it yields into a commit unit."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from types import GeneratorType
from typing import Any

import orjson

from topology.declaration.view import View
from topology.engine.commit_unit import NO_HEADERS, CommitUnit, Out
from topology.engine.output.failure import WITHOUT_ROW, Failure, decided, log_failure
from topology.engine.output.live_cells import Cells, CellSource, Kept
from topology.engine.output.message_paths import as_json, follow
from topology.engine.output.record_formatter import (
    OUTPUT_LIMIT,
    RecordFormatter,
    own_stream,
    too_large,
)
from topology.engine.output.trace_context import TRACEPARENT, trace_context
from topology.model.changes import (
    ITEMS_LIMIT,
    Delete,
    Emit,
    FailedRows,
    Late,
    Upsert,
    acollected,
    check_change,
    check_finite,
    check_message,
    collected,
    each_of,
    text_bytes,
)
from topology.model.errors import HandlerError
from topology.model.event import Event
from topology.model.hop_headers import EPOCH, SEQUENCE, STREAM
from topology.model.unwritable import unwritable

FEW = 16
"""Row changes and messages of one event that are not looked at together."""
OWN_HEADERS = 20_000
"""Bytes of the headers that the engine adds to a message, at most."""
OUTPUTS_LIMIT = FEW * OUTPUT_LIMIT
"""Bytes of all messages of one event but the first few."""
Emitted = tuple[dict[str, list[Out]], str, Out]
"""Which of the unit's outputs a message goes to, its topic, its record."""
_PLAIN = frozenset((GeneratorType, list, tuple))
"""What handlers return, nearly always."""
ROWS = 10
"""Rows of one event whose errors are reported each, at most."""
NEVER: Mapping[Event, int] = {}
"""No event was retried."""


class Handling:
    """One view's handling of one step: outputs into the unit, stream states and failures counted.

    state_of: stream → its dictionary as JSON before this step, or None. retried: events that
    failed before → how often they were retried, this time included. states: stream → its
    dictionary after the step, for the streams that were handled. held: stream → the failure
    that sets it aside; its later events are not handled. without: the events that failed, and
    that their streams go on without. too_late: those in sequence that were too late in their
    own time, and why. unrouted: the event of each message without a destination. formatter: of
    the view's output records. stored: the cells of a view whose handler takes them, before this
    step. cells: stream → those that it changes.
    """

    def __init__(
        self,
        view: View,
        unit: CommitUnit,
        state_of: Callable[[str], bytes | None],
        retried: Mapping[Event, int] = NEVER,
        formatter: RecordFormatter | None = None,
        stored: CellSource | None = None,
    ) -> None:
        self.view = view
        self.unit = unit
        self.state_of = state_of
        self.retried = retried
        self.held: dict[str, Failure] = {}
        self.states: dict[str, bytes] = {}
        self.live: dict[str, Any] = {}
        self.stateful = view.stateful
        self.stored = stored if view.cells else None
        self.cells: dict[str, Kept] = {}
        self.live_cells: Cells | None = None
        self.attempt: Callable[[Iterable[Any]], None] | None = None
        self.processed = self.passed = self.failed = 0
        self.without: list[Event] = []
        self.formatter = formatter or RecordFormatter(view)
        self.has_lanes = self.formatter.has_lanes
        self.outputs: list[Out] = []
        self.topics: set[str] = set()
        self.named: set[str] = set()
        self.sent = unit.sent
        self.paths = view.paths
        self.unrouted: list[Event] = []
        self.too_late: list[tuple[Event, str]] = []
        self.context = NO_HEADERS
        self.refused = view.emitting.refused
        self.hops = view.hops

    def run(self, ready: Iterable[Event]) -> None:
        """Handle events with a plain handler."""
        view, fail = self.view, self.fail
        more = view.stateful or view.cells or view.paths or view.hops or self.refused
        # What a subclass does otherwise is not known here.
        write = self.write if more or self.__class__ is not Handling else self.writes_one()
        handler, accepts = view.handler, view.accepts
        if view.cells:
            handler = self.with_cells
        processed = passed = 0
        state = self.state if self.stateful else None
        remaining: Iterator[Event] | None = iter(ready)
        while remaining is not None:
            for event in remaining:
                if accepts is not None and event.kind not in accepts:
                    passed += 1
                    continue
                try:
                    items = handler(event) if state is None else handler(event, state(event.stream))
                    write(event, () if items is None else items)
                    processed += 1
                except BaseException as error:
                    # Nobody else raises anything here: a plain function cannot be cancelled.
                    if view.by_row and self._row_by_row(event):
                        processed += 1
                    elif fail(event, error):
                        remaining = self.others(remaining)
                        break
            else:
                remaining = None
        self.processed += processed
        self.passed += passed

    async def arun(self, ready: Iterable[Event]) -> None:
        """Handle events with a handler that has to be awaited, one after the other."""
        view = self.view
        accepts, stateful = view.accepts, view.stateful
        for event in self.others(ready):
            if accepts is not None and event.kind not in accepts:
                self.passed += 1
                continue
            try:
                arguments = (event, self.state(event.stream)) if stateful else (event,)
                result = (self.with_cells if view.cells else view.handler)(*arguments)
                if hasattr(result, "__aiter__"):
                    items = await acollected(result)
                else:
                    items = collected(await result or ())
                self.write(event, items)
                self.processed += 1
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError | GeneratorExit) and _ends(error):
                    raise
                self.fail(event, error)

    def others(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events of streams that are not set aside, looked at when it is their turn."""
        return (event for event in events if event.stream not in self.held)

    def state(self, stream: str) -> dict[str, Any]:
        """The stream's dictionary, for the handler to read and change.

        Read from its JSON for every event, so that a handler sees the same wherever a batch ends,
        and nothing of an event that failed.
        """
        raw = self.states.get(stream) or self.state_of(stream)
        self.live = state = {} if raw is None else orjson.loads(raw)
        return state

    def with_cells(self, event: Event, state: dict[str, Any]) -> Any:
        """Call a handler that takes cells too."""
        assert self.stored is not None
        stream = event.stream
        self.live_cells = Cells(self.stored, stream, self.cells.setdefault(stream, {}))
        self.live_cells.attempt = self.attempt
        return self.view.handler(event, state, self.live_cells)

    def _row_by_row(self, event: Event) -> bool:
        """Handle an event that failed again, without those of its rows that do; False where it
        fails all the same."""
        if (event.stream, event.sequence) in self.view.emitting.failing:
            return False  # it is a message of it that Kafka refuses, whatever its rows are
        self.attempt = partial(self._try, event)
        try:
            self.write(event, self.with_cells(event, self.state(event.stream)))
        except BaseException:
            return False
        finally:
            self.attempt = None
        return True

    def _try(self, event: Event, items: Iterable[Any]) -> None:
        """Raise what writing a part of an event's outputs would raise."""
        trial = Handling(self.view, CommitUnit(*self.unit.place), self.state_of)
        trial.stateful = False
        trial.write(event, items)

    def writes_one(self) -> Callable[[Event, Any], None]:
        """`write` of a view whose handlers yield one thing most often, of which there is little to
        find out: a row change, or a message with the event's own key to a topic that is known."""
        unit, topics, name, write = self.unit, self.topics, self.view.name, self.write
        colocated, now, sent, keyed = unit.colocated, unit.now, self.sent.append, self.view.of.keyed

        def write_one(event: Event, items: Any) -> None:
            message = event.message
            if items.__class__ not in _PLAIN or message.headers:
                write(event, items)
                return
            if items.__class__ is not GeneratorType:
                items = iter(items)
            # The handler goes on behind the first, to its end most often.
            found = tuple(islice(items, 2))
            if len(found) == 1:
                first = found[0]
                if first.__class__ is Emit:
                    key, value, topic = first.key, first.value, first.topic
                    if (
                        keyed and key is message.key and key is not None
                        and value.__class__ is bytes and topic in topics and not first.headers
                        and len(key) + len(value) <= OUTPUT_LIMIT
                    ):  # fmt: skip
                        out: Out = (key, value, now, NO_HEADERS)
                        colocated[topic].append(out)
                        sent((topic, out, name, event.stream, event.sequence))
                        return
                elif first.__class__ is Upsert or first.__class__ is Delete:
                    check_change(first)
                    self.context = NO_HEADERS
                    self.emit_changes(event, [first])
                    return
            if found:
                write(event, chain(found, items))

        return write_one

    def write(self, event: Event, items: Iterable[Any]) -> None:
        """Take over what the handler yields for one event, all of it or nothing."""
        changes: list[Upsert | Delete] = []
        emits: list[Emitted] = []
        if items.__class__ not in _PLAIN and items.__class__ is not chain:
            items = each_of(items)
        self.context = trace_context(came) if (came := event.message.headers) else NO_HEADERS
        if self.named:
            self.named = set()
        few, size = FEW, 0
        unrouted: list[Event] = []
        late: str | None = None
        rows: FailedRows | None = None
        if self.paths:
            items = follow(self.paths, event, items, unrouted)
        for item in items:
            kind = item.__class__
            if kind is Upsert or kind is Delete:
                check_change(item)
                changes.append(item)
            elif kind is Emit:
                emits.append(self.emitted(event, item))
            elif kind is Late:
                late = item.reason
            elif kind is FailedRows:
                rows = item
            else:
                raise HandlerError(
                    f"the handler yielded a {kind.__name__}; yield Upsert, Delete or Emit"
                )
            few -= 1
            if few < 0:
                size += len(emits[-1][2][1] or b"") if kind is Emit else 0
                _check_end(FEW - few, size)
        # The handler has ended only now: the dictionary is as it leaves it.
        state = encoded_state(self.live) if self.stateful else None
        cells = self.live_cells.changed() if self.live_cells is not None else None
        if changes:
            self.emit_changes(event, changes)
        if emits:
            if self.named:
                self.view.emitting.name(self.named)
                self.topics |= self.named
            sent, name, stream, sequence = self.sent, self.view.name, event.stream, event.sequence
            for outputs, topic, out in emits:
                outputs[topic].append(out)
                sent.append((topic, out, name, stream, sequence))
        if unrouted:
            self.unrouted += unrouted
        if late is not None:
            self.too_late.append((event, late))
        if rows is not None:
            for error in rows.errors[:ROWS]:
                log_failure(self.view, event, error, WITHOUT_ROW, self.unit)
            if more := len(rows.errors[ROWS:]):
                why = HandlerError(f"{more:,} more rows of this event cannot be made")
                log_failure(self.view, event, why, WITHOUT_ROW, self.unit, more)
        if state is not None:
            self.states[event.stream] = state
        if cells:
            self.cells[event.stream].update(cells)
        if self.context:
            self.unit.traced.append((self.view.name, event, self.context))

    def emit_changes(self, event: Event, changes: list[Upsert | Delete]) -> None:
        """Take over an event's row changes."""
        self.outputs.append(self.formatter.record(event, changes, self.unit.now, self.context))

    def emitted(self, event: Event, item: Emit) -> Emitted:
        """What a message comes to."""
        key, value = item.key, item.value
        if self.refused and (why := self.view.emitting.refusal(event.stream, event.sequence)):
            raise HandlerError(why)
        if item.topic not in self.topics or item.headers:
            check_message(item)
            if item.topic not in self.topics:
                self.view.emitting.admit(item.topic, self.named)
                self.named.add(item.topic)
        if key is event.message.key and self.view.of.keyed:
            colocated = key is not None
        else:
            stream = own_stream(self.view, event) if self.has_lanes else event.stream
            colocated = key == stream
            if key.__class__ is bytes:
                colocated = key == stream.encode()
            elif isinstance(key, str):
                try:
                    key = key.encode()
                except UnicodeEncodeError:
                    key = text_bytes(f"Emit(topic={item.topic!r})", "the key", str(key))
            elif key is not None:
                check_message(item)
        headers = list(item.headers) if item.headers else NO_HEADERS
        if self.hops and item.topic in self.hops:
            headers, colocated = [*self.from_event(event), *headers], False
        if value is not None and value.__class__ is not bytes:
            value = as_json(item)
        if self.context and all(name != TRACEPARENT for name, _ in headers):
            headers = [*headers, *self.context]  # else the handler begins a trace of its own
        size = 0 if value is None else len(value)
        if key is not None:
            size += len(key)
        if size > OUTPUT_LIMIT - OWN_HEADERS or item.headers:
            _check_size(item.topic, size, headers)
        outputs = self.unit.colocated if colocated else self.unit.keyed
        return outputs, item.topic, (key, value, self.unit.now, headers)

    def from_event(self, event: Event) -> list[tuple[str, bytes]]:
        """The headers of a message to another view: the event that it comes from."""
        headers = [(STREAM, event.stream.encode()), (SEQUENCE, b"%d" % event.sequence)]
        epoch_of = self.formatter.epoch_of
        if epoch_of is not None and (epoch := epoch_of(event.stream)):
            headers.append((EPOCH, b"%d" % epoch))
        return headers

    def fail(self, event: Event, error: BaseException) -> bool:
        """Do what the view's error policy says; the stream's state is as before the event.

        Returns whether events that follow have to be filtered from now on.
        """
        what = decided(self.view.error, event, error, self.retried.get(event, 0))
        text = log_failure(self.view, event, error, what.done, self.unit)
        if not what.held:
            self.failed += 1
            self.without.append(event)
            self.end_state(event)
            return False
        first = not self.held
        self.held[event.stream] = Failure(event, what, text)
        return first

    def end_state(self, event: Event) -> None:
        """An event that was not handled closes its stream all the same: what begins again has no
        state."""
        stream = event.stream
        if not self.view.closed_by(event):
            return
        if self.stateful:
            self.states[stream] = b"{}"
        if self.stored is not None:
            cells = self.cells.setdefault(stream, {})
            cells.update(dict.fromkeys([*self.stored.keys(stream), *cells]))

    def finish(self) -> None:
        """Hand the row changes over to the unit."""
        if self.outputs:
            self.unit.colocated[self.view.output] += self.outputs


def encoded_state(state: dict[str, Any]) -> bytes:
    """A stream's dictionary as JSON. Raises HandlerError for what JSON cannot hold."""
    try:
        raw = orjson.dumps(state)
    except TypeError:
        told = unwritable(state, orjson.dumps)
        raise HandlerError(f"the stream's state: {told}") from None
    if len(raw) > OUTPUT_LIMIT:
        raise too_large("the stream's state", raw)
    if b"null" in raw and orjson.loads(raw) != state:
        check_finite("the stream's state", state)
    return raw


def _ends(error: BaseException) -> bool:
    """Whether it is this work that is to end; else a handler awaited something that did."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if isinstance(error, GeneratorExit):
        # A task is never closed while it runs; a coroutine that somebody else drives may be.
        return task is None
    return task is not None and task.cancelling() > 0


def _check_end(number: int, size: int) -> None:
    """Raises HandlerError where a handler has yielded more than one event can mean."""
    if number > ITEMS_LIMIT:
        raise HandlerError(
            f"the handler yielded more than {ITEMS_LIMIT} row changes and messages for one event; "
            "does it end?"
        )
    if size > OUTPUTS_LIMIT:
        raise HandlerError(f"the event's messages have more than {OUTPUTS_LIMIT} bytes together")


def _check_size(topic: str, size: int, headers: list[tuple[str, bytes]]) -> None:
    """Raises HandlerError for a record that is larger than Kafka takes. size: without headers."""
    size += sum(len(name.encode()) + len(text or b"") for name, text in headers)
    if size > OUTPUT_LIMIT:
        raise HandlerError(
            f"the message for topic {topic!r} has {size} bytes, key and headers included; "
            f"the limit is {OUTPUT_LIMIT}"
        )
