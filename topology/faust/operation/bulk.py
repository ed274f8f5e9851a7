"""One command for many streams: which ones, what would be done, and what was."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from topology.diagnostics.explain import OpenGap
from topology.diagnostics.explain.parked_streams import ParkedStreams
from topology.diagnostics.explain.times import waited
from topology.engine.commands.command import Command, CommandResult
from topology.faust.inspection import CannotAnswer, gaps, parked
from topology.faust.inspection.durable import DurableState
from topology.faust.inspection.named import view_of
from topology.faust.inspection.ticker import Ticker
from topology.faust.inspection.unread_streams import UnreadStreams
from topology.faust.operation.command_sender import ANSWER, EXPIRES, CommandSender
from topology.model.counted import counted
from topology.model.printable import printable

AT_ONCE = 200
"""Commands that are given before their answers are waited for."""
LIMIT = 1000
"""Streams that one command is for at most, unless told otherwise."""
SHOWN = 50
_FACTS = {
    "released": "released", "skipped": "skipped", "dead": "dead", "waits": "waiting",
    "untried": "not tried",
}  # fmt: skip
"""Streams of which it is told one by one what came of it."""
_OF_ROUTES = (
    "{left} left as they are: `sequitur route {name}` is for those of a router's file; an "
    "application gives a Release, a control record"
)


@dataclass(frozen=True, slots=True)
class StreamSelection:
    """Which streams a command for many is meant for.

    Attributes:
        view: only of this one; all unless given.
        older_than: seconds that they have waited for at least.
        reason: a part of the reason why the event failed.
        limit: streams at most, the oldest first.
    """

    view: str = ""
    older_than: float = 0.0
    reason: str = ""
    limit: int = LIMIT


@dataclass(slots=True)
class BulkResult:
    """What came of a command for many streams.

    Attributes:
        name: the command's.
        dry_run: whether it only says what would be done.
        results: each command with its answer, None if nobody answered.
        more: how many streams were chosen beyond the limit.
        unread: how many streams were left out, as what they miss may lie where nobody has read yet.
        unseen: what was not looked at.
    """

    name: str
    dry_run: bool
    results: list[tuple[Command, CommandResult | None]] = field(default_factory=list)
    more: int = 0
    unread: int = 0
    unseen: list[str] = field(default_factory=list)

    @property
    def done(self) -> int:
        return sum(1 for _, result in self.results if result is not None and result.done)

    @property
    def unanswered(self) -> int:
        return sum(1 for _, result in self.results if result is None)

    @property
    def refused(self) -> int:
        return len(self.results) - self.done - self.unanswered

    @property
    def facts(self) -> dict[str, int]:
        sums: dict[str, int] = {}
        for _, result in self.results:
            for name, value in result.facts.items() if result is not None and result.done else ():
                if isinstance(value, int) and name in _FACTS and (value or name != "untried"):
                    sums[name] = sums.get(name, 0) + value
        return sums

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "name": self.name, "dry_run": self.dry_run, "done": self.done,
            "refused": self.refused, "unanswered": self.unanswered, "more": self.more,
            "unread": self.unread,
            "facts": self.facts, "unseen": self.unseen,
            "streams": [
                {
                    "view": command.view, "stream": command.stream, "id": command.id,
                    **({"done": None} if result is None else
                       {"done": result.done, "message": result.message, "facts": result.facts}),
                }
                for command, result in self.results
            ],
        }  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for command, result in self.results[:SHOWN]:
            stream = f"view {command.view}: stream {printable(command.stream)}"
            yield f"{stream}: nobody answered" if result is None else printable(result.message, 400)
        if (hidden := len(self.results) - SHOWN) > 0:
            yield f"… and {hidden} more, see --json"
        if not self.results:
            yield "no stream was chosen"
        facts = ", ".join(f"{value} {_FACTS[name]}" for name, value in self.facts.items())
        would = "would be done" if self.dry_run else "done"
        yield (
            f"{self.name}: {self.done} of {counted(len(self.results), 'stream')} {would}"
            + (f" ({facts})" if facts else "")
            + (f", {self.refused} refused" if self.refused else "")
            + (f", {self.unanswered} not answered" if self.unanswered else "")
        )
        if self.more:
            more = counted(self.more, "more stream is", "more streams are")
            yield f"{more} meant; give the command again, or raise --limit"
        if self.unread:
            left = counted(self.unread, "stream was", "streams were")
            yield (
                f"{left} left out: what is missing may lie in messages that are not read yet; give "
                "the command again when they are"
            )
        yield from self.unseen


async def operate_many(
    app: Any, name: str, choice: StreamSelection, *, force: bool = False, dry_run: bool = False,
    seconds: float = ANSWER, expires: float = EXPIRES, why: str = "",
) -> BulkResult:  # fmt: skip
    """Give a command for each stream that is chosen; each has an audit record of its own.

    Args:
        app: what `compile` made.
        name: `skip` for what is missing in front of streams, `redrive` or `unpark` for parked ones.
        choice: which streams.
        force: do it although it loses something.
        dry_run: say only what would be done.
        seconds: how long to wait for a worker, after its last answer.
        expires: seconds after which no worker carries a command out any more; 0 for never.
        why: for the record.

    Raises:
        KeyError: there is no such view.
        CannotAnswer: the choice makes no sense, or no worker has run yet.
    """
    if choice.view:
        view_of(app, choice.view)
    chosen = await _chosen(app, name, choice)
    more = max(0, len(chosen.commands) - choice.limit)
    made = BulkResult(name, dry_run, [], more, chosen.unread, chosen.unseen)
    commands = [
        replace(each, force=force or each.force, dry_run=dry_run, why=why)
        for each in chosen.commands[: choice.limit]
    ]
    if not commands:
        return made
    names = {each.view for each in commands}
    ticker = Ticker(name, len(commands), unit="streams")
    async with CommandSender(
        app, [app.engine.topology.views[view] for view in sorted(names)]
    ) as sender:
        for at in range(0, len(commands), AT_ONCE):
            answers = await sender.give(
                commands[at : at + AT_ONCE], seconds=seconds, expires=expires
            )
            made.results += zip(sender.last, answers, strict=True)
            ticker.add(len(answers))
            if not any(answers):
                # Nobody is there: what is left would wait as well, and expire.
                made.results += [(each, None) for each in commands[at + AT_ONCE :]]
                break
    ticker.end()
    return made


class _Chosen(NamedTuple):
    """commands: the oldest stream's first. unread, unseen: as in a BulkResult."""

    commands: list[Command]
    unread: int
    unseen: list[str]


async def _chosen(app: Any, name: str, choice: StreamSelection) -> _Chosen:
    views = app.engine.topology.views
    if name == "skip":
        if choice.reason:
            raise CannotAnswer("--reason is of streams that failed: redrive or unpark them")
        ledger = await gaps(app, view=choice.view, limit=1 << 62)
        old = [
            (gap, at)
            for gap in ledger.gaps
            if waited(ledger.now, gap.since) >= choice.older_than * 1000
            and (at := up_to(gap, views[gap.view].ordering.step)) is not None
        ]
        found = old
        if ledger.unread and old:
            async with DurableState(app) as durable:
                sources = {views[gap.view].of.name: views[gap.view].of for gap, _ in old}
                await durable.find_held(sources.values())
                unread = UnreadStreams(durable)
                found = [each for each in old if not await unread.may_have(each[0])]
        commands = [Command(name, g.view, g.stream, at, only_missing=True) for g, at in found]
        return _Chosen(commands, len(old) - len(found), ledger.unseen)
    aside: ParkedStreams = await parked(app, view=choice.view)
    mine = aside.older(choice.older_than, choice.reason)
    unseen = [*mine.unseen] if choice.reason else []
    streams = [one for one in mine.streams if one.view in views]
    if routed := len(mine.streams) - len(streams):
        # They stand under the names of their stages' tables, and no view takes commands for them.
        left = counted(
            routed, "stream of a stage that routes is", "streams of stages that route are"
        )
        unseen.append(_OF_ROUTES.format(left=left, name=name))
    # Its workers may have parked a stream that the first stage of a view has forgotten.
    forced = {one.view: views[one.view].work is not None for one in streams}
    commands = [Command(name, o.view, o.stream, force=forced[o.view]) for o in streams]
    return _Chosen(commands, 0, unseen)


def up_to(gap: OpenGap, step: int) -> int | None:
    """The last of what is missing in front of a stream; None if nothing is to be skipped.

    That is so if it is parked, has no contiguous order, or if its next event is there or
    lies in the dead topic: that one would be lost.
    """
    if gap.parked or gap.count is None or not gap.missing:
        return None
    first = gap.missing[0]
    return first.last if first.first == gap.last + step else None
