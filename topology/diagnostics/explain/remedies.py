"""Which commands would help a stream."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from topology.declaration.policies import Halt
from topology.diagnostics.explain.formatting import spelled
from topology.diagnostics.explain.stream_context import StreamContext
from topology.diagnostics.explain.stream_status import StreamStatus
from topology.model.counted import counted


@dataclass(frozen=True, slots=True)
class Remedy:
    """A command line that would help, and what it does."""

    command: str
    effect: str


def remedies(status: StreamStatus, context: StreamContext) -> list[Remedy]:
    """Commands that would help, the first that are needed first."""
    task, found = status.task, []
    view, say = task.view, _CommandLine(status, context)
    if context.owner is None:
        found.append(Remedy(f"{context.command} worker", "a worker takes the partition"))
    if task.halted or (context.work is not None and context.work.halted):
        again = "; streams that failed are tried again" if isinstance(view.error, Halt) else ""
        found.append(Remedy(f"{context.command} resume {view.name}", f"the view goes on{again}"))
    if status.situation in ("parked", "retrying"):
        if view.work is None:
            what = "says what would be handled, and would fail"
            found.append(say.command("redrive", "--dry-run", what=what))
        found += [
            say.command("redrive", what=f"handles it again from sequence {status.head} on, now"),
            say.command(
                "unpark",
                what=f"goes on without sequence {status.head}, which goes to {view.dead_topic}",
            ),
        ]
    if back := status.passed.recoverable:
        words = ["redrive-dead", "--view", view.name, "--stream", status.stream]
        dead = counted(len(back), "event")
        found.append(
            Remedy(
                f"{context.command} {quoted(words)}",
                f"puts {dead} from {view.dead_topic} back in place",
            )
        )
    elif status.situation in ("waiting", "dead") and task.state.ordering.counts and status.blocked:
        gap = status.missing
        assert gap is not None
        if context.may_come:
            return [*found, say.command("explain", what=_again(context))]
        force = ("--force",) if gap.count != 1 else ()
        effect = f"skips {spelled(gap, '', '').strip()}; what comes of it later is late"
        if task.state.counts.dead and any(view.dead_topic in each for each in context.unseen):
            effect += f". It may lie in {view.dead_topic}: read more of it first, with --scan"
        found.append(say.command("skip", *force, sequence=gap.last, what=effect))
    if status.passed and status.situation != "parked":
        app = context.command.removeprefix("faust -A ")
        words = ["--app", app, "--view", view.name, "--stream", status.stream]
        found.append(
            Remedy(
                f"sequitur rebuild run {quoted([*words, '--read-store', 'URL'])}",
                "makes the stream's rows anew, with all that its history has in its place",
            )
        )
    return found


def _again(context: StreamContext) -> str:
    """Until when to wait, where what is missing may be under way."""
    reads = []
    if context.unkeyed:
        reads.append(
            f"a worker has re-keyed {counted(context.unkeyed, 'offset')} of the source topics"
        )
    if context.lag or not reads:
        reads.append(
            f"the view has read partition {context.partition} of its input up to offset "
            f"{context.end}"
        )
    return (
        f"says it anew; wait until {' and '.join(reads)}, and give nothing up before: what is "
        "missing may lie there"
    )


class _CommandLine:
    def __init__(self, status: StreamStatus, context: StreamContext) -> None:
        self._stream = status.stream
        self._view = status.task.view.name
        self._start = context.command

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
