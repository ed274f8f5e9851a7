"""What the side topics have of a stream: their records, read for what they say."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from topology.declaration.lanes import LANE, split_lane
from topology.declaration.view import View
from topology.diagnostics.explain.stream_context import Arrival, Blocked, Request, SetAside
from topology.diagnostics.records import body_of, last_header
from topology.engine.output.failure import HEALED
from topology.engine.state.rows import redriven_key
from topology.engine.view_task import ViewTask
from topology.model.event import Message
from topology.model.origin_headers import IN_SEQUENCE, REASON, original
from topology.sequencer.progress import Progress, may_be_skipped

_HELD = ("retry", "park", "halt", "rebuild")
"""What was done about failed events that the view did not pass over begins with one of these."""


@dataclass(frozen=True, slots=True)
class SideRecords:
    """Records that may be of a stream, as the side topics have them, the oldest first.

    unseen: which topics were not looked at to their beginning, in words.
    """

    dead: list[Message] = field(default_factory=list)
    errors: list[Message] = field(default_factory=list)
    late: list[Message] = field(default_factory=list)
    malformed: list[Message] = field(default_factory=list)
    audit: list[Message] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    def of(self, task: ViewTask, stream: str, now: int) -> "StreamSideRecords":
        """What they say of a stream of a view; in a view with lanes, of one lane.

        task: of the view; its rows say which dead events were put back. now: ms.
        """
        mine, rows = _BelongsTo(task.view, stream), task.state.table
        dead = [
            replace(each, again=rows.get(redriven_key(record.offset)) is not None)
            for record in filter(mine, self.dead)
            for each in _dead(record)
        ]
        failed = [each for record in filter(mine, self.errors) for each in _failed(record)]
        progress = task.state.progress(stream)
        # Another copy of one that no rebuild took in may have led to one since.
        late = [
            each
            for record in filter(mine.lately, self.late)
            for each in _late(record)
            if last_header(record, REASON) is None
            or last_header(record, IN_SEQUENCE) is not None
            or may_be_skipped(progress, each.sequence)
        ]
        if isinstance(progress, Progress) and progress.anew and task.view.late.rebuilds:
            failed = [each for each in failed if each.sequence in progress.failed]
        return StreamSideRecords(
            _last_of_each(dead),
            tuple(each for each in _last_of_each(failed) if not each.again),
            tuple(late),
            tuple(_malformed(record) for record in self.malformed),
            _failures(filter(mine, self.errors)),
            tuple(self.unseen),
            _blocked(filter(mine, self.audit), now),
        )


@dataclass(frozen=True, slots=True)
class StreamSideRecords:
    """As in StreamContext. failures: sequence → why it failed last."""

    dead: tuple[SetAside, ...] = ()
    failed: tuple[SetAside, ...] = ()
    late: tuple[Arrival, ...] = ()
    malformed: tuple[SetAside, ...] = ()
    failures: dict[int, str] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    blocked: Blocked | None = None


class _BelongsTo:
    """Whether a record is of a stream of a view."""

    def __init__(self, view: View, stream: str) -> None:
        self._view = "view", view.name.encode()
        self._stream = stream.encode()
        own, lane = split_lane(stream) if view.split is not None else (stream, None)
        self._own = own.encode()
        self._lane = None if lane is None else (LANE, lane.encode())

    def __call__(self, record: Message) -> bool:
        return record.key == self._stream and self._view in record.headers

    def lately(self, record: Message) -> bool:
        """The same of a late record, which has the stream and the lane apart."""
        mine = record.key == self._own and self._view in record.headers
        return mine and (self._lane is None or self._lane in record.headers)


def dead_of(record: Message) -> Iterable[tuple[str, str, SetAside]]:
    """(view, stream, what it is) of a record of the dead topic; nothing if it is none."""
    view = (last_header(record, "view") or b"").decode("utf-8", "replace")
    for each in _dead(record):
        yield view, (record.key or b"").decode("utf-8", "replace"), each


def _dead(record: Message) -> Iterable[SetAside]:
    sequence = _number(last_header(record, "sequence"))
    if sequence is not None:
        yield SetAside(sequence, _place(record, sequence), _text(record, REASON))


def _failed(record: Message) -> Iterable[SetAside]:
    report = body_of(record)
    sequence, done = report.get("sequence"), str(report.get("done"))
    if isinstance(sequence, int) and not done.startswith(_HELD):
        why, healed = str(report.get("error")), done == HEALED
        yield SetAside(sequence, _place(record, sequence), why, again=healed)


def _failures(records: Iterable[Message]) -> dict[int, str]:
    found: dict[int, str] = {}
    for record in records:
        report = body_of(record)
        if isinstance(report.get("sequence"), int):
            found[report["sequence"]] = str(report.get("error"))
    return found


def _late(record: Message) -> Iterable[Arrival]:
    if (sequence := _number(last_header(record, "sequence"))) is not None:
        yield _place(record, sequence)


def _malformed(record: Message) -> SetAside:
    message = original(record)
    at = Arrival(None, message.topic, message.partition, message.offset, record.timestamp)
    return SetAside(None, at, _text(record, REASON))


def _blocked(records: Iterable[Message], now: int) -> Blocked | None:
    """The handler that blocks still: it is told again and again; a killed worker tells no end."""
    last: dict[str, Any] = {}
    for record in records:
        body = body_of(record)
        if body.get("name") in ("blocked", "unblocked"):
            last = body
    try:
        if last.get("name") != "blocked" or now - last["when"] > last["seconds"] * 2000:
            return None
        return Blocked(
            int(last["sequence"]), int(last["since"]), float(last["seconds"]),
            float(last["timeout"]), str(last["who"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None


def requested(view: View, records: Iterable[Message]) -> Iterable[Request]:
    """What a view asked a relay for, of the records of the topic that the relay reads."""
    for record in records:
        body = body_of(record)
        first, last = body.get("first"), body.get("last")
        if body.get("view") == view.name and isinstance(first, int) and isinstance(last, int):
            yield Request(first, last, record.timestamp)


def _last_of_each(found: Iterable[SetAside]) -> tuple[SetAside, ...]:
    """What is known last of each sequence, in sequence."""
    last = {each.sequence or 0: each for each in found}
    return tuple(last[sequence] for sequence in sorted(last))


def _place(record: Message, sequence: int) -> Arrival:
    return Arrival(sequence, record.topic, record.partition, record.offset, record.timestamp)


def _text(record: Message, name: str) -> str:
    return (last_header(record, name) or b"").decode("utf-8", "replace")


def _number(value: bytes | None) -> int | None:
    try:
        return int(value or b"")
    except ValueError:
        return None
