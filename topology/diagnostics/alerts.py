"""Patterns over records of errors: so many of one kind within a time are an alert.

Time is the records' own, so that whoever reads the same records again comes to the same alerts.
"""

import re
from bisect import insort
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from topology.engine.output.failure import HEALED
from topology.model.counted import counted
from topology.model.event import Message
from topology.model.origin_headers import ORIGIN, REASON
from topology.model.printable import printable
from topology.model.replay_headers import tells_of_replay

MOST_GROUPS = 10_000
"""Groups of one pattern that are held; the one that was quiet for longest is forgotten first."""
MOST_COUNT = 10_000
"""The most records that a pattern may ask for."""
LENGTH = 2_000
"""Characters of a field that an alert tells."""
LATEST = 253_402_300_799_000
"""The last second of the year 9999 in ms, beyond which no time can be shown."""

_FAILED = "sequitur-failed-reason"
"""The header in which units of work say why a message failed."""
_TOLD = frozenset((ORIGIN, REASON, _FAILED))
_RULE = re.compile(r"(?:\w+: )?rule (['\"])(.*?)\1:", re.DOTALL)
_FRAME = re.compile(r'^ *File "(.+)", line \d+, in (.+)$', re.MULTILINE)


def fields_of(record: Message) -> dict[str, str] | None:
    """What patterns see of a record of a side topic; None of one that tells of no failure.

    Args:
        record: of an errors, parked, malformed, late or dead topic, or of any other one.

    Returns:
        Field → text: `topic`, `key`, `view` and `reason` where there are any; of a report in JSON
        each field that is a text or a number, as `view`, `stream`, `kind`, `error`, `done`; of
        what a router could not route `rule`, by which it failed, if one is to blame; and of
        an error `exception`, the name of its type, and `stack`, the functions that it went
        through. A record of such a topic that a replay published again tells of nothing new; that
        a message failed which a replay published again is a failure like any other.
    """
    if tells_of_replay(record.headers, _TOLD):
        return None
    found = {"topic": record.topic}
    if record.key is not None:
        found["key"] = record.key.decode("utf-8", "replace")
    for name, value in record.headers:
        if name in ("view", REASON, _FAILED):
            found["view" if name == "view" else "reason"] = (value or b"").decode(
                "utf-8", "replace"
            )
    if (rule := _RULE.match(found.get("reason", ""))) is not None:
        found["rule"] = rule[2]
    try:
        report: Any = orjson.loads(record.value or b"")
    except ValueError:
        return found
    if not isinstance(report, dict):
        return found
    for name, value in report.items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            found.setdefault(name, str(value))
    # Elsewhere the value is the message's own, which may say anything.
    if report.get("done") == HEALED and record.topic.endswith(".errors"):
        return None
    if "error" in report:
        found["exception"] = found.get("error", "").partition(":")[0]
        frames = _FRAME.findall(found.pop("traceback", ""))
        found["stack"] = " > ".join(f"{file.rpartition('/')[2]}:{name}" for file, name in frames)
    return found


@dataclass(frozen=True, slots=True)
class AlertPattern:
    """What an alert is: `count` records that agree in `same`, within a time.

    Attributes:
        name: of the pattern.
        count: how many records, from 1 to 10,000.
        within: seconds.
        same: the fields in which they agree; a field that a record does not have is empty.
        where: field → text that it has to have.
        topics: the topics that it is about; none: all that are watched.
        quiet: seconds after an alert in which there is no other one of the same group.
        actions: the names of what it triggers.
    """

    name: str
    count: int
    within: float
    same: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    topics: frozenset[str] = frozenset()
    quiet: float = 0.0
    actions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MOST_COUNT:
            raise ValueError(f"pattern {self.name!r}: count={self.count}; use 1 to {MOST_COUNT}")
        if self.within <= 0 or self.quiet < 0:
            raise ValueError(f"pattern {self.name!r}: within is above 0, and quiet not below 0")

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether it is about such a record."""
        if self.topics and fields["topic"] not in self.topics:
            return False
        return all(fields.get(name) == value for name, value in self.where.items())


@dataclass(frozen=True, slots=True)
class Alert:
    """A pattern that was found.

    Attributes:
        pattern: its name.
        group: the fields in which its records agree.
        count: how many records.
        first: time of the first one (ms).
        last: time of the last one (ms).
        quiet: how many more there were of the group since the last alert, about which it was quiet.
        sample: the fields of the last record.
    """

    pattern: str
    group: Mapping[str, str]
    count: int
    first: int
    last: int
    quiet: int
    sample: Mapping[str, str]

    @property
    def subject(self) -> str:
        """One line."""
        group = ", ".join(f"{name} {printable(text, 60)}" for name, text in self.group.items())
        return printable(f"{self.pattern}: {self.count}" + (f" of {group}" if group else ""), 200)

    def __str__(self) -> str:
        lines = [
            f"Pattern {self.pattern}: {counted(self.count, 'record')}"
            f" from {_time(self.first)} to {_time(self.last)}"
        ]
        if self.quiet:
            lines.append(f"{counted(self.quiet, 'other one')} came since the last alert.")
        lines += ["", "The last one:"]
        for name, text in self.sample.items():
            lines.append(f"  {printable(name, 100)}: {printable(text, LENGTH)}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        sample = {name: text[:LENGTH] for name, text in self.sample.items()}
        names = ("pattern", "group", "count", "first", "last", "quiet")
        return {name: getattr(self, name) for name in names} | {"sample": sample}


@dataclass(slots=True)
class _Group:
    """sure: whether it is known when it was told of last. last: time of a record before that."""

    times: list[int] = field(default_factory=list)
    told: float = float("-inf")
    quiet: int = 0
    sure: bool = True
    last: int = 0


class Alerts:
    """Finds patterns in records, which are given one by one, nearly in the order of their times.

    Args:
        patterns: what to look for.

    Attributes:
        forgotten: groups that were dropped because there were too many.
    """

    def __init__(self, patterns: tuple[AlertPattern, ...]) -> None:
        self._patterns = patterns
        self._groups: dict[str, OrderedDict[tuple[str, ...], _Group]] = {
            each.name: OrderedDict() for each in patterns
        }
        self.forgotten = 0

    @property
    def memory(self) -> float:
        """Seconds of records that decide about the next one.

        Twice what patterns look back: behind a silence it is known when a group was told of.
        """
        return 2 * max((max(each.within, each.quiet) for each in self._patterns), default=0.0)

    def note(
        self, fields: Mapping[str, str], time: int, since: int | None = None
    ) -> list[tuple[Alert, tuple[str, ...]]]:
        """Take a record.

        Args:
            fields: of it, as `fields_of` says.
            time: its own (ms).
            since: of a record that another process has told of, from when on such ones are taken
                (ms). It is not known of which of them it has: that counts only behind a silence, so
                that too much may be told, and not too little.

        Returns:
            The alerts that it makes, each with the names of its actions.
        """
        found = []
        for pattern in self._patterns:
            if pattern.matches(fields) and (alert := self._noted(pattern, fields, time, since)):
                found.append((alert, pattern.actions))
        return found

    def _noted(
        self, pattern: AlertPattern, fields: Mapping[str, str], time: int, since: int | None
    ) -> Alert | None:
        groups = self._groups[pattern.name]
        key = tuple(fields.get(name, "") for name in pattern.same)
        group = groups.pop(key, None) or _Group(sure=since is None, last=since or 0)
        groups[key] = group
        if len(groups) > MOST_GROUPS:
            groups.popitem(last=False)
            self.forgotten += 1
        times = group.times
        if since is not None and not group.sure:
            silence, group.last = time - group.last, max(time, group.last)
            group.sure = silence >= max(pattern.within, pattern.quiet) * 1000
        if time < group.told + pattern.quiet * 1000:
            group.quiet += 1
            return None
        insort(times, time)
        del times[: -pattern.count]
        if since is not None and not group.sure:
            return None
        if len(times) < pattern.count or times[-1] - times[0] > pattern.within * 1000:
            return None
        alert = Alert(
            pattern.name,
            dict(zip(pattern.same, key, strict=True)),
            pattern.count,
            times[0],
            times[-1],
            group.quiet,
            dict(fields),
        )
        group.told, group.quiet, group.sure = time, 0, True
        times.clear()
        return alert


def _time(ms: int) -> str:
    seconds = min(max(ms, 0), LATEST) / 1000
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
