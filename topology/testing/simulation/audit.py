"""Compare what a simulated run left behind with what its input comes to."""

from collections import defaultdict
from collections.abc import Collection, Mapping

from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.model.counts import Counts
from topology.model.event import Event
from topology.testing.simulation.arrived import ArrivalReader, Arrived
from topology.testing.simulation.audit_shared import SharedTopics, hasty
from topology.testing.simulation.audit_state import StreamState, state_errors
from topology.testing.simulation.epochs import last_epoch
from topology.testing.simulation.fold import Expected, fold
from topology.testing.simulation.schedule import Schedule

REMEMBERED = 100_000
"""Folds kept from one run to the next."""

Outputs = list[tuple[int, bytes]]
"""(sequence, value) of a stream's records in a view's output topic, as they stand there."""


class Audit:
    """Says what is wrong with runs that have come to rest; remembers folds from run to run."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._reader = ArrivalReader()
        self._folds: dict[tuple[str, str, tuple[int, ...]], Expected] = {}

    def errors(self, run: Schedule) -> list[str]:
        """What is wrong, in words; nothing if all promises are kept."""
        if len(self._folds) > REMEMBERED:
            self._reader, self._folds = ArrivalReader(), {}
        once = run.world.guarantee == "exactly_once"
        wrong: list[str] = []
        shared = SharedTopics(run)
        for source in self.topology.sources.values():
            arrived = self._reader.read(run.world, source, once=once)
            wrong += arrived.wrong
            shared.malformed += arrived.malformed
            shared.unknown += arrived.unknown if source.unknown == "topic" else 0
            for view in run.world.layout.views[source.name]:
                wrong += self._view(run, view, arrived, shared)
        return wrong + shared.errors()

    def _view(self, run: Schedule, view: View, arrived: Arrived, shared: SharedTopics) -> list[str]:
        world, order = run.world, view.of.sequence
        once = world.guarantee == "exactly_once"
        settles, skips = order.settles, hasty(view)
        wrong: list[str] = []
        outputs = _outputs(run, view)
        sums = [Counts(received=number) for number in arrived.received]
        states: list[dict[str, StreamState]] = [{} for _ in sums]
        for stream, events in arrived.streams.items():
            late = shared.late.pop((view.name, stream), set())
            if settles:
                # A copy of what was handled long ago is late as well.
                said = {at for at, _ in outputs.get(stream.encode(), ())}
                handled = sorted(events.keys() - (late - said))
                wrong += _early(run, view, stream, late - said, arrived)
            elif skips:
                handled = sorted(events.keys() - late)
                wrong += _early(run, view, stream, late, arrived)
            else:
                handled = self._chain(view, events)
            last = handled[-1] if handled else order.start - order.step
            waiting = set() if skips else events.keys() - set(handled)
            expected = self._expected(view, stream, tuple([events[at] for at in handled]))
            if expected.parked is not None:
                last = expected.parked - order.step
                handled = [at for at in handled if at <= last]
                waiting = {at for at in events if at > last}
                wrong += shared.parked_errors(view, stream, waiting)
            dead = shared.dead.pop((view.name, stream), [])
            redriven = shared.redriven.pop((view.name, stream), 0)
            wrong += _dead_errors(view, stream, last, waiting, dead)
            waiting -= set(dead)
            key = stream.encode()
            found = outputs.pop(key, [])
            records = len(expected.outputs)
            if view.late.rebuilds:
                records = len(found)
                found = last_epoch(found)
            if found != expected.outputs:
                wrong += _differences(run, view, stream, found, expected.outputs)
            too_late = sorted(shared.too_late.pop((view.name, stream), []))
            told = too_late if once else sorted({*too_late})
            if view.late.rebuilds:
                # Each epoch tells of its own.
                told = [at for at in sorted({*too_late}) if at in expected.too_late]
            if told != expected.too_late:
                wrong.append(f"{view.name}: {stream}: late in their own time are {too_late}")
            shared.expect(view, stream, expected)
            run.handled += expected.processed
            run.failed += len(expected.failed)
            partition = world.partition_of(key)
            states[partition][stream] = StreamState(last, waiting, expected)
            counts = sums[partition]
            counts.processed += expected.processed
            counts.passed += expected.passed
            if expected.parked is None:
                counts.failed += len(expected.failed)
                counts.waiting += len(waiting)
            else:
                counts.failed += len(expected.failed) - 1
                counts.parked += len(waiting)
            counts.dead += len(dead)
            counts.redriven += redriven
            counts.received += redriven
            counts.late += shared.late_records.pop((view.name, stream), 0) if once else len(late)
            counts.written += records
            if order.counts:
                counts.skipped += (last - order.start + order.step) // order.step - len(handled)
        wrong += [f"{view.output}: stream {key!r} never came" for key in outputs]
        for partition, counts in enumerate(sums):
            wrong += state_errors(run, view, partition, counts, states[partition])
        return wrong

    def _chain(self, view: View, events: Mapping[int, int]) -> list[int]:
        """What is handled of a stream that waits for what is missing, by the plain rule."""
        order, handled = view.of.sequence, list[int]()
        for at in sorted(events):
            message = self._reader.messages[events[at]]
            found = view.of.inspect(message)
            assert found is not None
            if not order.follows(Event(*found, message), handled[-1] if handled else None):
                break
            handled.append(at)
        return handled

    def _expected(self, view: View, stream: str, numbers: tuple[int, ...]) -> Expected:
        """The fold of the messages with these numbers."""
        key = (view.name, stream, numbers)
        found = self._folds.get(key)
        if found is None:
            messages = self._reader.messages
            found = self._folds[key] = fold(view, [messages[number] for number in numbers])
        return found


def _dead_errors(
    view: View, stream: str, last: int, waiting: Collection[int], dead: Collection[int]
) -> list[str]:
    """What is dead although it was handled, or has its place in the ring."""
    if not view.of.sequence.counts:
        return []
    reach = last + view.buffer * view.of.sequence.step
    return [
        f"{view.name}: {stream} {sequence} is dead, though the stream is at {last}"
        for sequence in dead
        if sequence not in waiting or sequence <= reach
    ]


def _outputs(run: Schedule, view: View) -> dict[bytes, Outputs]:
    found: dict[bytes, Outputs] = defaultdict(list)
    for number in range(run.world.partitions):
        for key, value, _, headers in run.world.log.partition((view.output, number)).committed():
            found[key or b""].append((int(headers[1][1] or b""), value or b""))
    return found


def _differences(
    run: Schedule, view: View, stream: str, found: Outputs, wanted: Outputs
) -> list[str]:
    """How a stream's output differs from what it should be.

    At least once, a repeat is right if it says the same. Where a crash undid that a gap was given
    up it may not; then what is said last is what counts.
    """
    where = f"{view.output}: stream {stream}"
    if run.world.guarantee == "at_least_once":
        said: dict[int, bytes] = {}
        for sequence, value in found:
            if hasty(view):
                said.pop(sequence, None)
            elif said.get(sequence, value) != value:
                return [f"{where} says {value!r} after {said[sequence]!r}"]
            said[sequence] = value
        found = list(said.items())
        if found == wanted:
            return []
    sequences, right = [at for at, _ in found], [at for at, _ in wanted]
    if sequences != right:
        return [f"{where} has the sequences {sequences}, not {right}"]
    say, want = next((s[1], w[1]) for s, w in zip(found, wanted, strict=True) if s != w)
    return [f"{where} says {say!r}, not {want!r}"]


def _early(run: Schedule, view: View, stream: str, late: set[int], arrived: Arrived) -> list[str]:
    """What was given up before its time; where clocks differ, what was in no gap at all."""
    order = view.of.sequence
    if order.settles:
        least = order.settle
    else:
        assert view.gap.skips
        least = view.gap.least
    after = 0 if run.skewed else round(least * 1000)
    since, wrong = arrived.since, []
    for sequence in late:
        behind = [since[stream, at] for at in arrived.streams[stream] if at > sequence]
        if not behind or (stream, sequence) not in since:
            wrong.append(f"{view.name}: {stream} {sequence} is late, but was in no gap")
        elif (waited := since[stream, sequence] - min(behind)) < after:
            wrong.append(
                f"{view.name}: {stream} {sequence} is late, though it came {waited} ms after the "
                f"first event behind it, and the gap had {after} ms"
            )
    return wrong
