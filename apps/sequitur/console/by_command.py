"""Actions on what runs beside the topology: its own commands carry them out."""

from sequitur.console.actions import Action, Done, told
from sequitur.console.run_command import run_command
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
        return await _done(command_of(group, told(words, reason, why)))

    async def tried(_: object) -> Done:
        first, *rest = told(words, reason, "a dry run")
        return await _done(command_of(group, [first, "--dry-run", *rest]))

    return Action(
        name, title, words, run, tried if dry_run else None, cost, f"sequitur {group}", reason
    )


async def _done(command: list[str]) -> Done:
    # To take over a site, say, takes as long as there is to copy; half of it is of no use.
    answer = await run_command(command, seconds=None)
    return not answer.status, answer.text
