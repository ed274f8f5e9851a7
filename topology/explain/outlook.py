"""What holds a stream back, what happens next and when, and which commands would help."""

import shlex
from dataclasses import dataclass
from typing import Literal

from topology.explain.around import Around
from topology.explain.missing import Missing
from topology.explain.times import lasting
from topology.on_error import Halt, Retry
from topology.progress import Progress
from topology.sequencer import deadline
from topology.view_task import ViewTask

Situation = Literal[
    "unknown",
    "in order",
    "unread",
    "redelivering",
    "waiting",
    "settling",
    "released",
    "retrying",
    "parked",
]


@dataclass(frozen=True, slots=True)
class Next:
    """What will happen, and when (ms); None where that depends on somebody."""

    what: str
    when: int | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """A command line that would help, and what it does."""

    command: str
    effect: str


@dataclass(frozen=True, slots=True)
class Held:
    """A stream's place in a view, as far as it decides what comes next.

    stream, situation, last: as in an Account. head: the first sequence that waits or is away, None
    if none does. waiting: how many wait. missing: the first of the ranges.
    """

    task: ViewTask
    stream: str
    situation: Situation
    progress: int | Progress
    last: int
    head: int | None
    waiting: int
    missing: Missing | None

    @property
    def blocked(self) -> bool:
        """Whether what is missing is the very next."""
        return self.missing is not None and (self.head is None or self.missing.first < self.head)


def causes(held: Held, around: Around) -> list[str]:
    """What holds the stream back, the outermost cause first; nothing if nothing does."""
    task, found = held.task, []
    if task.halted:
        found.append(f"view {task.view.name} is halted: {task.halted}")
    if around.owner is None:
        found.append(_unassigned(around))
    told = _cause(held, around)
    if told:
        found.append(told)
    if around.unread and held.situation != "unread":
        found.append(f"{_messages(around.unread)} of the stream are not read yet")
    return found


def _unassigned(around: Around) -> str:
    why = {"Empty": "no worker runs", "Dead": "no worker runs"}.get(
        around.group, f"the group is {around.group}"
    )
    return f"partition {around.partition} is assigned to nobody: {why}"


def _cause(held: Held, around: Around) -> str | None:
    gap, progress = held.missing, held.progress
    match held.situation:
        case "parked":
            failed = f", which failed: {around.failure}" if around.failure else ", which failed"
            return f"it is parked at sequence {held.head}{failed}"
        case "retrying":
            assert isinstance(progress, Progress)
            assert progress.retry is not None
            policy = held.task.view.error
            of = f" of {policy.times}" if isinstance(policy, Retry) else ""
            failed = f": {around.failure}" if around.failure else ""
            return (
                f"sequence {held.head} failed and is held for retry {progress.retry.attempts}{of}"
                f"{failed}"
            )
        case "waiting":
            if held.blocked and gap is not None:
                return f"{_range(gap)} missing, and {held.waiting} wait behind"
            return f"{held.waiting} wait until sequence {held.head} comes again"
        case "redelivering":
            return (
                f"its ring of {held.task.view.buffer} slots had no room for "
                f"{_events(len(around.away))}, and nothing waits in it"
            )
        case "settling":
            return f"{_events(held.waiting)} wait until lower ones can have come"
        case "unread":
            return f"{_messages(around.unread)} of the stream are not read yet"
    return None


def nexts(held: Held, around: Around) -> list[Next]:
    """What will happen, in the order that it will."""
    task, found = held.task, []
    view = task.view.name
    if around.owner is None:
        found.append(Next("nothing until a worker has the partition; then:"))
    if task.halted:
        found.append(Next(f"nothing in view {view} until it is resumed; then:"))
    if held.situation == "parked":
        found.append(Next("nothing of the stream until it is redriven or unparked"))
        return found
    if around.unread:
        found.append(
            Next(f"the view reads on: {around.lag} offsets to the end of its input"),
        )
    if around.away:
        due = min(away.due for away in around.away)
        found.append(Next(f"{_events(len(around.away))} come again from redelivery", due))
    if held.situation == "released":
        found.append(Next("its next event is here: the next step releases it"))
    if isinstance(held.progress, Progress) and held.progress.waiting:
        found += _by_timer(held, held.progress, around)
    if not found:
        expected = f"sequence {held.last + task.ordering.step}"
        if task.ordering.kind != "contiguous":
            expected = "what follows"
        found.append(Next(f"{expected} is handled when it comes"))
    return found


def _by_timer(held: Held, progress: Progress, around: Around) -> list[Next]:
    due = deadline(held.task.ordering, progress)
    if held.situation == "retrying":
        return [Next(f"sequence {held.head} is tried again", due)]
    if held.situation == "settling":
        return [Next("what has settled is handled", due)]
    if held.situation == "released" or not held.blocked or held.missing is None:
        return []
    comes = f"the stream goes on as soon as sequence {held.missing.first} comes"
    if held.task.ordering.kind != "contiguous":
        comes = "the stream goes on as soon as what is missing comes"
    if due is None:
        return [Next(f"{comes}; the view's gap policy is to wait for it")]
    unread = around.lag + around.unkeyed
    behind = f", of which {unread} offsets are unread" if unread else ""
    known = f"once all that had arrived by then is read{behind}"
    if due <= around.now:
        known += f"; it has been due for {lasting(around.now - due)}"
    return [Next(comes), Next(f"else {_range(held.missing, 'is', 'are')} given up, {known}", due)]


def remedies(held: Held, around: Around) -> list[Remedy]:
    """Commands that would help, the first that are needed first."""
    task, found = held.task, []
    view, say = task.view, _Say(held, around)
    if around.owner is None:
        found.append(Remedy(f"{around.command} worker", "a worker takes the partition"))
    if task.halted:
        again = "; streams that failed are tried again" if isinstance(view.error, Halt) else ""
        found.append(Remedy(f"{around.command} resume {view.name}", f"the view goes on{again}"))
    if held.situation in ("parked", "retrying"):
        found += [
            say.command("redrive", "--dry-run", what="says what would be handled, and would fail"),
            say.command("redrive", what=f"handles it again from sequence {held.head} on, now"),
            say.command(
                "unpark",
                what=f"goes on without sequence {held.head}, which goes to {view.dead_topic}",
            ),
        ]
    elif held.situation == "waiting" and task.ordering.kind == "contiguous" and held.blocked:
        gap = held.missing
        assert gap is not None
        force = ("--force",) if gap.count != 1 else ()
        effect = f"gives {_range(gap, '', '').strip()} up; what comes of it later is late"
        found.append(say.command("skip", *force, sequence=gap.last, what=effect))
    return found


class _Say:
    def __init__(self, held: Held, around: Around) -> None:
        self._stream = held.stream
        self._view = held.task.view.name
        self._start = around.command

    def command(self, name: str, *flags: str, what: str, sequence: int | None = None) -> Remedy:
        options = ["--view", self._view, *flags]
        arguments = [self._stream] if sequence is None else [self._stream, str(sequence)]
        if any(word.startswith("-") for word in arguments):
            words = [name, *options, "--", *arguments]
        else:
            words = [name, *arguments, *options]
        return Remedy(f"{self._start} {shlex.join(words)}", what)


def _range(gap: Missing, one: str = "is", more: str = "are") -> str:
    """`sequence 4 is` or `sequences 4 to 6 (3) are`."""
    if gap.count is None:
        return f"something between {gap.first - 1} and {gap.last + 1} {one}"
    if gap.count == 1:
        return f"sequence {gap.first} {one}"
    return f"sequences {gap.first} to {gap.last} ({gap.count}) {more}"


def _messages(number: int) -> str:
    return f"{number} message" if number == 1 else f"{number} messages"


def _events(number: int) -> str:
    return f"{number} event" if number == 1 else f"{number} events"
