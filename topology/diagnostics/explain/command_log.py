"""What operators told the views: commands that wait, and what came of the others."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from topology.diagnostics.explain.columns import columns
from topology.diagnostics.explain.times import lasting, since
from topology.engine.commands.command import Command
from topology.engine.state.lane_names import Meant
from topology.model.counted import counted
from topology.model.printable import printable

FORCED = ("skip", "drop")
"""Commands that refuse what loses something unless they are forced."""
WAITS = "waits"
"""The state of a command that no worker has taken yet."""


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """A command. given: when, expires: when it is too old (ms), 0 where that is not said. state:
    "waits", or what came of it: "carried out", "refused", "expired", "cancelled", at `when` (ms),
    and `message` says more. why: as whoever gave it said. dry_run: whether it changed nothing, and
    says only what would be. force: whether it was to be done although something is lost by it.
    """

    id: str
    name: str
    view: str
    stream: str | None
    sequence: int | None
    who: str
    given: int
    expires: int
    state: str
    when: int = 0
    message: str = ""
    why: str = ""
    dry_run: bool = False
    force: bool = False

    @property
    def line(self) -> str:
        """The command in words: `skip a 4`."""
        words = [self.name, *([self.stream] if self.stream else [])]
        words += [str(self.sequence)] if self.sequence is not None else []
        # With others it only says that the first stage of a view need not know the stream.
        words += ["--force"] * (self.force and self.name in FORCED)
        words += ["--dry-run"] * self.dry_run
        return printable(" ".join(words), 60)


@dataclass(frozen=True, slots=True)
class CommandFilter:
    """Which commands. id: the beginning of it. reason: a text in why it was given, or in what came
    of it. since, until: given at this time or later, and before (ms). meant: what the stream's text
    names; the very text unless given.
    """

    id: str = ""
    stream: str = ""
    reason: str = ""
    since: int | None = None
    until: int | None = None
    meant: Meant | None = field(default=None, compare=False)

    def takes(self, told: CommandRecord) -> bool:
        """Whether a command is one of them."""
        late = self.since is None or told.given >= self.since
        mine = self.stream in ("", told.stream)
        return (
            told.id.startswith(self.id)
            and (mine or (self.meant is not None and self.meant(told.view, told.stream)))
            and (self.reason in told.why or self.reason in told.message)
            and late
            and (self.until is None or told.given < self.until)
        )


ALL = CommandFilter()
"""Whatever there is."""


def pending_command(command: Command, given: int) -> CommandRecord:
    """A command that waits. given: when its record was written (ms), if it does not say itself."""
    return CommandRecord(
        command.id, command.name, command.view, command.stream, command.sequence, command.who,
        command.given or given, command.expires, WAITS, why=command.why,
        dry_run=command.dry_run, force=command.force,
    )  # fmt: skip


def answered_command(body: Mapping[str, Any]) -> CommandRecord:
    """A command that was answered. body: of a record of the audit topic. Raises KeyError."""
    outcome = body.get("outcome") or ("carried out" if body["done"] else "refused")
    return CommandRecord(
        body["id"], body["name"], body["view"], body.get("stream"), body.get("sequence"),
        body["who"], body.get("given") or body["when"], body.get("expires", 0), outcome,
        body["when"], body["message"], body.get("why", ""), body.get("dry_run") is True,
        body.get("force") is True,
    )  # fmt: skip


def merged(found: Iterable[CommandRecord]) -> list[CommandRecord]:
    """Each command once, the oldest first: one that went to all partitions has an answer of each.

    Of a stream's, what was carried out counts, then another answer, then that it waits in a
    partition; that one does not have the stream counts least. A view's waits as long as it does in
    one partition.
    """
    parts: defaultdict[str, list[CommandRecord]] = defaultdict(list)
    for at, told in enumerate(found):
        parts[told.id or f"{told.view}/{at}"].append(told)
    return sorted(map(_whole, parts.values()), key=lambda told: (told.given, told.when))


def _whole(parts: Sequence[CommandRecord]) -> CommandRecord:
    """A command by what is known of it in each partition, the newest last."""
    best = min(reversed(parts), key=_rank)
    states = Counter(each.state for each in parts)
    # On Spark nobody notes what is read: what was refused there seems to wait.
    if best.stream is not None or best.state == "refused" or len(states) == 1:
        return best
    told = ", ".join(f"{state} in {number}" for state, number in states.items() if state != WAITS)
    waits = next((each for each in parts if each.state == WAITS), best)
    return replace(waits, message=f"{told} of {counted(len(parts), 'partition')}")


def _rank(told: CommandRecord) -> int:
    if told.state == "carried out":
        return 0
    if told.state == WAITS:
        return 2
    return 3 if "has no stream" in told.message else 1


def commands_text(
    found: Sequence[CommandRecord],
    now: int,
    unseen: Iterable[str] = (),
    chosen: str = "was given",
) -> str:
    """A command per line, the oldest first. chosen: what is said of none."""
    if not found:
        return "\n".join([f"no command {chosen}", *unseen])
    head = ("id", "given", "by", "view", "command", "state", "answer")
    lines = columns([head, *(_line(each, now) for each in found)])
    pending = sum(1 for each in found if each.state == WAITS)
    lines.append(f"{counted(len(found), 'command')}, {pending} waiting")
    return "\n".join([*lines, *unseen])


def command_text(told: CommandRecord, now: int) -> str:
    """Everything that is known of a command."""
    facts = {
        "id": told.id, "command": told.line, "view": told.view, "by": told.who,
        "given": since(now, told.given) if told.given else "?", "why": told.why or "not said",
        "state": told.state, "since": since(now, told.when) if told.when else "",
        "answer": told.message,
    }  # fmt: skip
    return "\n".join(f"{name}: {printable(text, 4000)}" for name, text in facts.items() if text)


def _line(told: CommandRecord, now: int) -> Sequence[str]:
    state = told.state
    if state == WAITS and told.expires:
        left = told.expires - now
        state = f"waits, for {lasting(left)} more" if left > 0 else "waits, too old by now"
    why = f" [{printable(told.why, 200)}]" if told.why else ""
    return (
        told.id[:8], f"{lasting(now - told.given)} ago" if told.given else "?",
        printable(told.who, 30), told.view, told.line, state, printable(told.message) + why,
    )  # fmt: skip


def pending_text(told: CommandRecord, now: int) -> str:
    """A command that waits, in words."""
    (_, given, who, _, line, state, _) = _line(told, now)
    return f"{line} by {who}, {given}: {state}"
