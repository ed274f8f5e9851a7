"""What a view should come to: its handler called once per event, in sequence, and nothing else.

No buffers, batches, rows or commits: this is what the engine's results are compared with.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from topology.declaration.policies import Advance, OnError
from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.engine.output.failure import decided
from topology.engine.output.handling import Handling
from topology.engine.output.live_cells import MemoryCells
from topology.model.event import Event, Message
from topology.testing.awaited import complete

Emitted = tuple[str, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]
"""(topic, key, value, headers)."""


@dataclass(slots=True)
class Expected:
    """One stream in one view. outputs: (sequence, value) of its records, in sequence.

    emits: the messages to other topics, in order. state: its dictionary as JSON, None if it has
    none. cells: its cells, likewise. failed: the sequences whose handler failed → how often it was
    called. parked: the last of these, where the stream ends by the view's error policy. too_late:
    those that were late in their own time.
    """

    outputs: list[tuple[int, bytes]] = field(default_factory=list)
    emits: list[Emitted] = field(default_factory=list)
    state: bytes | None = None
    failed: dict[int, int] = field(default_factory=dict)
    processed: int = 0
    passed: int = 0
    parked: int | None = None
    too_late: list[int] = field(default_factory=list)
    cells: dict[str, bytes | None] = field(default_factory=dict)


class _Failing:
    """Notes what the view's error policy would do, and goes on.

    Whatever is tried again, it fails again: handlers are deterministic here.
    """

    def __init__(self, policy: OnError) -> None:
        self.policy = policy
        self.attempts = 1
        self.parks = False

    def on_error(self, event: Event, error: BaseException) -> Advance:
        tries = 0
        while (what := decided(self.policy, event, error, tries)).retry:
            tries = what.retry
        self.attempts, self.parks = tries + 1, what.held and not what.halts
        return Advance()


def fold(view: View, messages: Iterable[Message]) -> Expected:
    """The fold of a stream's messages, which are in sequence and of which none is malformed."""
    result, cells = Expected(), MemoryCells()
    failing = _Failing(view.error)
    view = replace(view, error=failing, emitting=view.emitting.anew())
    for message in messages:
        found = view.of.inspect(message)
        assert found is not None
        stream, sequence, kind, content = found
        event = Event(stream, sequence, kind, content, message, message.timestamp)
        unit = CommitUnit(message.topic, message.partition)
        states = {stream: result.state}
        handling = Handling(view, unit, states.get, stored=cells)
        if view.is_async:
            complete(handling.arun([event]))
        else:
            handling.run([event])
        handling.finish()
        result.processed += handling.processed
        result.passed += handling.passed
        result.too_late += [sequence] * len(handling.too_late)
        result.state = handling.states.get(stream, result.state)
        cells.take(handling.cells)
        if handling.failed:
            result.failed[sequence] = failing.attempts
            if failing.parks:
                result.parked = sequence
                break
            continue
        unit.keyed.pop(view.errors_topic, None)  # of rows that could not be made
        for _, value, _, _ in unit.colocated.pop(view.output, ()):
            result.outputs.append((sequence, value or b""))
        for topics in (unit.colocated, unit.keyed):
            for topic, records in topics.items():
                for key, value, _, headers in records:
                    result.emits.append((topic, key, value, tuple(headers)))
        result.cells = {key: cells.get(stream, key) for key in cells.keys(stream)}
    return result
