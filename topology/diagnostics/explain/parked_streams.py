"""Streams that are set aside until somebody says what to do with them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import orjson

from topology.diagnostics.explain.columns import columns
from topology.diagnostics.explain.times import lasting, waited
from topology.engine.state.lane_names import Meant
from topology.engine.view_task import ViewTask
from topology.model.counted import counted
from topology.model.event import Message
from topology.model.printable import printable
from topology.sequencer.progress import Progress

Reasons = Mapping[tuple[str, str, int], str]
"""(view, stream, sequence) → why the event failed."""


@dataclass(frozen=True, slots=True)
class ParkedStream:
    """A parked stream. since: when its failed event came (ms). sequence: the failed one's. waiting:
    how many events wait, that one included. reason: why it failed, None where that is not known
    any more.
    """

    view: str
    partition: int
    stream: str
    since: int
    sequence: int
    waiting: int
    reason: str | None


@dataclass(slots=True)
class ParkedStreams:
    """What is parked, the oldest first. now: the workers' clock (ms). unseen: what was not looked
    at, in words; nothing if all was. others: how many were left out, as nobody asked for them.
    """

    now: int
    streams: list[ParkedStream] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    others: int = 0

    def explain(self, reasons: Reasons) -> None:
        """Say why, of the streams of which that is known."""
        self.streams = [
            replace(each, reason=reasons.get((each.view, each.stream, each.sequence), each.reason))
            for each in self.streams
        ]

    def older(
        self, seconds: float, reason: str = "", stream: str = "", meant: Meant | None = None
    ) -> "ParkedStreams":
        """Those that have waited for as long, and whose reason has the text; or the one stream.

        meant: what the stream's text names; the very text unless given.
        """
        mine = [
            each
            for each in self.streams
            if waited(self.now, each.since) >= seconds * 1000
            and reason in (each.reason or "")
            and (stream in ("", each.stream) or (meant and meant(each.view, each.stream)))
        ]
        others = self.others + len(self.streams) - len(mine)
        return ParkedStreams(self.now, mine, self.unseen, others)


def parked_of(task: ViewTask, partition: int) -> Iterator[ParkedStream]:
    """The parked streams of a view in one partition, without reasons.

    task: made of the rows that `of_waiting` keeps.
    """
    name = task.view.name
    for stream, waiting in task.state.parked.items():
        progress = task.state.progress(stream)
        assert isinstance(progress, Progress)
        head = next((event.sequence for event in task.state.waits(stream)), progress.last)
        yield ParkedStream(name, partition, stream, progress.since, head, waiting, None)


def reason_of(record: Message) -> tuple[tuple[str, str, int], str] | None:
    """What a record of the errors topic says of an event; None if it is none."""
    try:
        report = orjson.loads(record.value or b"null")
        place = str(report["view"]), str(report["stream"]), int(report["sequence"])
        return place, str(report["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None


def parked_text(found: ParkedStreams, shown: int) -> str:
    """A stream per line, and how many there are."""
    if not found.streams:
        others = counted(found.others, "other is", "others are")
        none = f"no such stream is parked; {others}" if found.others else "no stream is parked"
        return "\n".join([none, *found.unseen])
    head = ("age", "view", "stream", "failed", "wait", "reason")
    lines = columns([head, *(_line(each, found.now) for each in found.streams[:shown])])
    more = len(found.streams) - shown
    waiting = counted(sum(each.waiting for each in found.streams), "waiting event")
    hidden = f", {more} more not shown" if more > 0 else ""
    streams = counted(len(found.streams), "parked stream")
    lines.append(f"{streams}, with {waiting}{hidden}")
    return "\n".join([*lines, *found.unseen])


def _line(each: ParkedStream, now: int) -> Sequence[str]:
    return (
        lasting(now - each.since), each.view, printable(each.stream, 60), str(each.sequence),
        str(each.waiting), printable(each.reason or "not known any more", 80),
    )  # fmt: skip
