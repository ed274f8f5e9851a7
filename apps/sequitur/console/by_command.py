"""Actions on what runs beside the topology: its own commands carry them out."""

from sequitur.console.actions import Action, Done, told
from sequitur.console.run_command import Answer, run_command
from sequitur.console.words import Words


def command_of(group: str, words: Words) -> list[str]:
    """A command of `sequitur`, as a process is given it."""
    return ["sequitur", group, *words]


def by_command(
    group: str, words: Words, name: str, title: str, cost: str, *,
    reason: str = "--reason", dry_run: bool = False,
) -> Action:  # fmt: skip
    """An action that a command of `sequitur` carries out.

    Args:
        group: `relay`, for example.
        words: its command and arguments.
        name: on the button.
        title: what it does, in a sentence.
        cost: what is lost.
        reason: the option that takes the reason, which the command records.
        dry_run: whether the command has --dry-run.
    """

    async def run(_: object, why: str) -> Done:
        return _done(await run_command(command_of(group, told(words, reason, why))))

    async def tried(_: object) -> Done:
        first, *rest = told(words, reason, "a dry run")
        return _done(await run_command(command_of(group, [first, "--dry-run", *rest])))

    return Action(
        name, title, words, run, tried if dry_run else None, cost, f"sequitur {group}", reason
    )


def _done(answer: Answer) -> Done:
    return not answer.status, answer.text
