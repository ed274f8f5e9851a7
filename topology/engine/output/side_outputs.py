"""What a view's step has to tell: late and parked events to their topics, lines for the log."""

from collections.abc import Iterable, Sequence

import orjson

from topology.declaration.lanes import LANE, split_lane
from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.engine.output.failure import Failure, position, readable
from topology.engine.output.record_formatter import own_stream
from topology.model.event import Event, Message
from topology.model.origin_headers import IN_SEQUENCE, ORIGIN, ORIGIN_KEY, REASON, origin
from topology.model.printable import printable
from topology.sequencer.progress import Progress
from topology.sequencer.sequencer import Step


def report_step(view: View, result: Step, late: Iterable[Event], unit: CommitUnit) -> None:
    """Late events, of which nothing better is to be made; gaps given up; and conflicts."""
    name, policy = view.name, view.late
    reason = policy.refusal
    send_late(view, late, unit, reason)
    for gap in result.skipped:
        unit.reports.append(
            f"view {name}: stream {printable(gap.stream)} skipped {gap.count} missing "
            f"({gap.first} to {gap.last})"
        )
    for event in result.conflicts:
        unit.reports.append(
            f"view {name}: stream {printable(event.stream)} sequence {event.sequence} came "
            f"twice with different bodies; the later one, {event.message.topic}/"
            f"{event.message.partition} offset {event.message.offset}, is discarded: check its "
            "producer"
        )


def send_late(
    view: View,
    events: Iterable[Event],
    unit: CommitUnit,
    reason: str | None = None,
    in_sequence: bool = False,
) -> None:
    """Send late events to the late topic.

    reason: why their stream is not rebuilt, if it was to. in_sequence: the events were handled, and
    are late in their own time.
    """
    for event in events:
        message = event.message
        headers = [
            *message.headers,
            ("view", view.name.encode()),
            ("sequence", b"%d" % event.sequence),
        ]
        if view.split is not None:
            headers.append((LANE, split_lane(event.stream)[1].encode()))
        if reason is not None:
            headers.append((REASON, reason.encode("utf-8", "backslashreplace")[:4000]))
        if in_sequence:
            headers.append((IN_SEQUENCE, b""))
        headers.append((ORIGIN, origin(message)))
        if message.key is not None:
            headers.append((ORIGIN_KEY, message.key))
        out = (own_stream(view, event).encode(), message.value, unit.now, headers)
        unit.keyed[view.late_topic].append(out)


def report_parked(
    view: View,
    progress: Progress,
    events: Sequence[Event],
    failure: Failure | None,
    unit: CommitUnit,
    more: int = 0,
) -> None:
    """Events of one stream that are parked from now on.

    failure: of this step, that parked it. more: how many others are, which the last record tells.
    """
    head = next(iter(progress.ring or ()), None)
    behind = f"behind sequence {head.sequence}" if head else "behind another"
    for event in events:
        failed = failure is not None and event.sequence == failure.event.sequence
        report = {
            "view": view.name,
            "stream": event.stream,
            "sequence": event.sequence,
            "kind": None if event.kind is None else readable(event.kind),
            "position": position(event),
            "reason": failure.error if failed and failure else behind,
        }
        if more and event is events[-1]:
            report["more"] = more
        headers = [("view", view.name.encode())]
        out = (event.stream.encode(), orjson.dumps(report), unit.now, headers)
        unit.keyed[view.parked_topic].append(out)


def send_malformed(view: View, records: Iterable[tuple[Message, str]], unit: CommitUnit) -> None:
    """Send what somebody wrote to the redelivery topic, and is no event, to the malformed topic.

    records: each with the reason.
    """
    for record, reason in records:
        why = reason.encode("utf-8", "backslashreplace")[:4000]
        headers = [*record.headers, (REASON, why), (ORIGIN, origin(record))]
        out = (record.key, record.value, unit.now, headers)
        unit.keyed[view.malformed_topic].append(out)
        unit.reports.append(
            f"view {view.name}: {record.topic}/{record.partition} offset {record.offset} "
            f"goes to {view.malformed_topic}: {printable(reason)}"
        )


def why_full(view: View, result: Step) -> str:
    """Why a view halts whose step is full."""
    for event in result.buffered:
        progress = result.changed.get(event.stream)
        if not isinstance(progress, Progress) or progress.suspended:
            continue
        if progress.ring is None or progress.ring.get(event.sequence) is not event:
            return (
                f"stream {event.stream} has no room for sequence {event.sequence} in its ring of "
                f"{view.buffer} slots"
            )
    return f"a stream has no room in its ring of {view.buffer} slots"
