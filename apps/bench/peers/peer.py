"""What the bench knows of a contestant: how it is started, and what it lacks."""

from collections.abc import Callable
from dataclasses import dataclass

from bench.job import GUARANTEES, Guarantee


def nothing() -> None:
    """What a contestant lacks that came with the set-up."""


@dataclass(frozen=True, slots=True)
class Peer:
    """One that does the ordering job.

    command: of a process that does the job in its environment. missing: → what is not installed,
    None if it is ready. install: brings that. title: for the reader, with its version. topics: what
    follows the group in the names of topics that have to be there before it starts. fraction: 1 in
    so many of the events are enough for its rate, where all would take it minutes.
    """

    name: str
    title: Callable[[], str]
    command: Callable[[], list[str]]
    guarantees: tuple[Guarantee, ...] = GUARANTEES
    missing: Callable[[], str | None] = nothing
    install: Callable[[], None] = nothing
    topics: tuple[str, ...] = ()
    fraction: int = 1
