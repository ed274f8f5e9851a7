"""What the side topics have, for somebody on call: chosen, grouped by reason, one in full."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from topology.diagnostics.explain.columns import columns
from topology.diagnostics.explain.times import lasting, since
from topology.diagnostics.records import body_of, last_header
from topology.engine.redelivery.dead_events import dead_of
from topology.engine.state.lane_names import Meant
from topology.model.counted import counted
from topology.model.event import Message
from topology.model.origin_headers import REASON, original
from topology.model.printable import printable

T = TypeVar("T")

SIDES = ("dead", "late", "malformed", "unknown", "errors")
"""The topics that have commands, without the topology's name."""
_SHOWN = 4_000
"""Characters of a content that are shown."""
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\b0x[0-9a-f]+\b|[-+]?\d+(?:[.:,-]\d+)*", re.IGNORECASE)


def alike(reason: str) -> str:
    """A reason without what differs from event to event: numbers, and what is quoted."""
    return _VARYING.sub("…", reason.partition("\n")[0]) or "no reason"


@dataclass(frozen=True, slots=True)
class SideRecord:
    """A record of a side topic.

    Attributes:
        offset: its own.
        when: it was set aside, in milliseconds since 1970.
        view: of it; "" for what no view has seen.
        stream: of it, if it is known.
        sequence: of it, if it is known.
        reason: why it is there.
        came: topic, partition and offset of the message.
        record: as it is in the side topic.
    """

    offset: int
    when: int
    view: str
    stream: str | None
    sequence: int | None
    reason: str
    came: tuple[str, int, int]
    record: Message

    @property
    def group(self) -> str:
        """Its reason without what differs from event to event: numbers, and what is quoted."""
        return alike(self.reason)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, without the message."""
        topic, partition, offset = self.came
        return {
            "offset": self.offset,
            "when": self.when,
            "view": self.view,
            "stream": self.stream,
            "sequence": self.sequence,
            "reason": self.reason,
            "came": {"topic": topic, "partition": partition, "offset": offset},
        }

    def in_full(self) -> dict[str, Any]:
        """For JSON, with the message, and what the error log says."""
        record = self.record
        own = original(record)
        headers = [[name, _text(value)] for name, value in record.headers]
        value = None if own.value is None else _text(own.value)
        told = body_of(record) if "traceback" in body_of(record) else {}
        key = _text(own.key if own.key is not None else record.key)
        return {**self.as_dict(), "key": key, "headers": headers, "value": value, **told}


def side_record(side: str, record: Message) -> SideRecord:
    """Read a record of a side topic; of what somebody else wrote there, what can be said.

    Args:
        side: one of SIDES.
        record: of that topic.
    """
    view = _text(last_header(record, "view")) or ""
    stream = _text(record.key)
    own = original(record)
    came = own.topic, own.partition, own.offset
    reason = _text(last_header(record, REASON)) or ""
    sequence = _number(_text(last_header(record, "sequence")))
    if side == "errors":
        told = body_of(record)
        came = _place(told.get("position"), came)
        stream, sequence = _of(told.get("stream"), str), _of(told.get("sequence"), int)
        done, error = told.get("done"), str(told.get("error") or "")
        reason = f"{error} (done: {done})" if error else str(done or "")
    elif side == "dead" and dead_of(record) is None:
        reason = reason or "it is no dead event: somebody else wrote it"
    elif side == "late" and not reason:
        reason = "its sequence was passed"
    elif side in ("malformed", "unknown"):
        stream = None
        reason = reason or ("" if side == "malformed" else "no inspector knows it")
    return SideRecord(record.offset, record.timestamp, view, stream, sequence, reason, came, record)


@dataclass(frozen=True, slots=True)
class SideFilter:
    """Which records.

    Attributes:
        view: only of this one.
        stream: only of this one.
        reason: only with this text in their reasons.
        since: set aside at this time or later, in milliseconds since 1970.
        until: set aside before this time, in milliseconds since 1970.
        meant: what the stream's text names; the very text unless given.
    """

    view: str = ""
    stream: str = ""
    reason: str = ""
    since: int | None = None
    until: int | None = None
    meant: Meant | None = field(default=None, compare=False)

    def takes(self, found: SideRecord) -> bool:
        """Whether a record is one of them."""
        if self.view and found.view != self.view:
            return False
        if self.stream not in ("", found.stream) and not (
            self.meant and self.meant(found.view, found.stream)
        ):
            return False
        if self.reason not in found.reason:
            return False
        late = self.since is None or found.when >= self.since
        return late and (self.until is None or found.when < self.until)


MOST_GROUPS, MOST_STREAMS = 1_000, 10_000
"""Groups of a side topic, and streams of each, that are told apart."""
REST = "…"
"""The reason of what has other ones: it has no text to choose records by."""


@dataclass(slots=True)
class SideGroup:
    """Records that are there for the same reason, but for numbers and what is quoted.

    Attributes:
        reason: without these.
        view: of them.
        sample: the last record.
        count: how many.
        first: when the first was set aside, in milliseconds since 1970.
        streams: of them, MOST_STREAMS at most.
        more: whether there are more streams.
    """

    reason: str
    view: str
    sample: SideRecord
    count: int = 0
    first: int = 0
    streams: set[str] = field(default_factory=set)
    more: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "reason": self.reason,
            "view": self.view,
            "count": self.count,
            "streams": len(self.streams),
            "more_streams": self.more,
            "first": self.first,
            "last": self.sample.when,
            "sample": self.sample.as_dict(),
        }


ALL = SideFilter()
"""Whatever there is."""


def grouped(records: Iterable[SideRecord]) -> list[SideGroup]:
    """Group records by view and reason, the largest group first.

    Args:
        records: the oldest first.
    """
    tally = SideTally()
    tally.add(records)
    return tally.groups()


@dataclass(slots=True)
class SideTally:
    """What was counted and grouped of a side topic; it can be gone on with.

    Attributes:
        first: the offset from which on it counts.
        end: the offset up to which it does.
        count: how many records.
        last: the last one.
    """

    first: int = 0
    end: int = 0
    count: int = 0
    last: list[SideRecord] = field(default_factory=list)
    _groups: dict[tuple[str, str], SideGroup] = field(default_factory=dict)

    def add(self, records: Iterable[SideRecord]) -> None:
        """Count records, the oldest first."""
        groups = self._groups
        for each in records:
            view, reason = each.view, each.group
            if (view, reason) not in groups and len(groups) >= MOST_GROUPS:
                view, reason = "", REST
            group = groups.get((view, reason))
            if group is None:
                group = groups[view, reason] = SideGroup(reason, view, each, first=each.when)
            group.count, group.sample = group.count + 1, each
            if each.stream is not None and each.stream not in group.streams:
                if len(group.streams) < MOST_STREAMS:
                    group.streams.add(each.stream)
                else:
                    group.more = True
            self.count += 1
            self.last = [each]

    def groups(self) -> list[SideGroup]:
        """The groups as they are now, the largest first."""
        found = [replace(each, streams={*each.streams}) for each in self._groups.values()]
        return sorted(found, key=lambda group: -group.count)


def list_text(side: str, records: Sequence[SideRecord], count: int, now: int) -> Iterator[str]:
    """A line for each record, and how many there are.

    Args:
        side: one of SIDES.
        records: those that are listed, the oldest first.
        count: how many there are.
        now: in milliseconds since 1970.
    """
    if records:
        head = ("offset", "age", "view", "stream", "sequence", "came from", "reason")
        yield from columns([head, *(_line(each, now) for each in records)])
    yield f"{counted(count, f'{side} record')}" + (
        f", the last {len(records)} listed" if count > len(records) else ""
    )


def groups_text(side: str, groups: Sequence[SideGroup], now: int) -> Iterator[str]:
    """A line for each group.

    Args:
        side: one of SIDES.
        groups: the largest first.
        now: in milliseconds since 1970.
    """
    if groups:
        head = ("count", "streams", "view", "first", "last", "sample", "reason")
        yield from columns(
            [
                head,
                *(
                    (
                        f"{each.count}", f"{len(each.streams)}{'+' * each.more}", each.view or "-",
                        f"{lasting(now - each.first)} ago",
                        f"{lasting(now - each.sample.when)} ago",
                        f"{each.sample.offset}", printable(each.reason, 100),
                    )
                    for each in groups
                ),
            ]
        )  # fmt: skip
    total = sum(each.count for each in groups)
    yield f"{counted(total, f'{side} record')} in {counted(len(groups), 'group')}"


def full_text(found: SideRecord, now: int) -> Iterator[str]:
    """Everything that a record says.

    Args:
        found: the record.
        now: in milliseconds since 1970.
    """
    topic, partition, offset = found.came
    yield f"set aside: {since(now, found.when)}, at offset {found.offset}"
    yield f"came from: {topic}/{partition} offset {offset}"
    if found.view:
        yield f"view: {found.view}"
    if found.stream is not None:
        yield f"stream: {printable(found.stream)}"
    if found.sequence is not None:
        yield f"sequence: {found.sequence}"
    whole = found.in_full()
    yield from (f"reason: {found.reason}").split("\n")
    yield from str(whole.get("traceback", "")).rstrip().split("\n") if "traceback" in whole else ()
    yield f"key: {printable(whole['key'])}"
    for name, value in whole["headers"]:
        yield f"header {printable(name)}: {printable(value, 200)}"
    value = whole["value"]
    yield "no value" if value is None else f"value: {printable(value, _SHOWN)}"


def _line(found: SideRecord, now: int) -> tuple[str, ...]:
    topic, partition, offset = found.came
    return (
        f"{found.offset}", lasting(now - found.when), found.view or "-",
        "-" if found.stream is None else printable(found.stream, 40),
        "-" if found.sequence is None else f"{found.sequence}",
        f"{topic}/{partition}/{offset}", printable(found.reason.partition("\n")[0], 120),
    )  # fmt: skip


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "backslashreplace")


def _place(told: object, other: tuple[str, int, int]) -> tuple[str, int, int]:
    """Where the error log says that a message is, unless somebody else wrote there."""
    if isinstance(told, dict):
        match told.get("topic"), told.get("partition"), told.get("offset"):
            case str(topic), int(partition), int(offset):
                return topic, partition, offset
    return other


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def _of(value: object, kind: type[T]) -> T | None:
    return value if isinstance(value, kind) else None
