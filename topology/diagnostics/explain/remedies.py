"""Which commands would help a stream."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from topology.declaration.policies.error import Halt
from topology.diagnostics.explain.formatting import events, spelled
from topology.diagnostics.explain.stream_context import Around
from topology.diagnostics.explain.stream_status import Standing


@dataclass(frozen=True, slots=True)
class Remedy:
    """A command line that would help, and what it does."""

    command: str
    effect: str


def remedies(standing: Standing, around: Around) -> list[Remedy]:
    """Commands that would help, the first that are needed first."""
    task, found = standing.task, []
    view, say = task.view, _Say(standing, around)
    if around.owner is None:
        found.append(Remedy(f"{around.command} worker", "a worker takes the partition"))
    if task.halted:
        again = "; streams that failed are tried again" if isinstance(view.error, Halt) else ""
        found.append(Remedy(f"{around.command} resume {view.name}", f"the view goes on{again}"))
    if standing.situation in ("parked", "retrying"):
        found += [
            say.command("redrive", "--dry-run", what="says what would be handled, and would fail"),
            say.command("redrive", what=f"handles it again from sequence {standing.head} on, now"),
            say.command(
                "unpark",
                what=f"goes on without sequence {standing.head}, which goes to {view.dead_topic}",
            ),
        ]
    if standing.passed.ahead:
        words = ["redrive-dead", "--view", view.name, "--stream", standing.stream]
        dead = events(len(standing.passed.ahead))
        found.append(
            Remedy(
                f"{around.command} {quoted(words)}",
                f"puts {dead} from {view.dead_topic} back in their places",
            )
        )
    elif (
        standing.situation == "waiting"
        and task.state.ordering.kind == "contiguous"
        and standing.blocked
    ):
        gap = standing.missing
        assert gap is not None
        if around.may_come:
            return [*found, say.command("explain", what=_again(around))]
        force = ("--force",) if gap.count != 1 else ()
        effect = f"gives {spelled(gap, '', '').strip()} up; what comes of it later is late"
        if task.state.counts.dead and any(view.dead_topic in each for each in around.unseen):
            effect += f". It may lie in {view.dead_topic}: look further first, with --scan"
        found.append(say.command("skip", *force, sequence=gap.last, what=effect))
    if standing.passed and standing.situation != "parked":
        app = around.command.removeprefix("faust -A ")
        words = ["--app", app, "--view", view.name, "--stream", standing.stream, "--store", "URL"]
        found.append(
            Remedy(
                f"python -m apps.rebuild run {quoted(words)}",
                "makes the stream's rows anew, with all that its history has in its place",
            )
        )
    return found


def _again(around: Around) -> str:
    """Until when to wait, where what is missing may be under way."""
    reads = []
    if around.unkeyed:
        reads.append(f"a worker has re-keyed {around.unkeyed} offsets of the source topics")
    if around.lag or not reads:
        reads.append(
            f"the view has read partition {around.partition} of its input up to offset {around.end}"
        )
    return (
        f"says it anew; wait until {' and '.join(reads)}, and give nothing up before: what is "
        "missing may lie there"
    )


class _Say:
    def __init__(self, standing: Standing, around: Around) -> None:
        self._stream = standing.stream
        self._view = standing.task.view.name
        self._start = around.command

    def command(self, name: str, *flags: str, what: str, sequence: int | None = None) -> Remedy:
        options = ["--view", self._view, *flags]
        arguments = [self._stream] if sequence is None else [self._stream, str(sequence)]
        if any(word.startswith("-") for word in arguments):
            words = [name, *options, "--", *arguments]
        else:
            words = [name, *arguments, *options]
        return Remedy(f"{self._start} {quoted(words)}", what)


def quoted(words: Iterable[str]) -> str:
    """Words as a shell takes them, and a terminal may be given them."""
    return " ".join(
        shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_escaped, word))}'"
        for word in words
    )


def _escaped(character: str) -> str:
    if character in ("'", "\\"):
        return f"\\{character}"
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
