"""Commands that take long: run once for all browsers, with progress, until done or cancelled."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import orjson
from nicegui import ui

from sequitur.console.answers import show_answer
from sequitur.console.reader import Reader
from sequitur.console.run_command import Answer, followed
from topology.diagnostics.explain.remedies import quoted
from topology.model.printable import printable


@dataclass(slots=True)
class Job:
    """A command that runs, or has run.

    Attributes:
        words: of the command, as a process is given it.
        progress: what it said last of how far it is.
        answer: what came of it; None while it runs, or if it was cancelled.
        running: the run, None before it.
    """

    words: Sequence[str]
    progress: str = "It has begun."
    answer: Answer | None = None
    running: Future[None] | None = field(default=None, repr=False)

    @property
    def runs(self) -> bool:
        """Whether it runs."""
        return self.running is not None and not self.running.done()

    def begin(self, reader: Reader) -> None:
        """Begin it."""
        self.running = reader.begin(self._run())

    def cancel(self) -> None:
        """End it, if it runs."""
        if self.running is not None and self.running.cancel():
            self.progress = "It was cancelled."

    async def _run(self) -> None:
        def heard(line: str) -> None:
            self.progress = line

        try:
            self.answer = await followed(self.words, heard=heard)
        except (OSError, ValueError) as error:
            self.answer = Answer(2, str(error))


class Jobs:
    """The last job of each kind."""

    def __init__(self, reader: Reader) -> None:
        self._reader, self._jobs = reader, dict[str, Job]()

    def begin(self, kind: str, words: Sequence[str]) -> None:
        """Begin a job, unless one of its kind runs."""
        before = self._jobs.get(kind)
        if before is None or not before.runs:
            self._jobs[kind] = job = Job(words)
            job.begin(self._reader)

    def done(self, kind: str, job: Job) -> None:
        """Take a job that has run."""
        self._jobs[kind] = job

    def show(
        self, kind: str, words: Callable[[], Sequence[str]], show: Callable[[Any], None]
    ) -> None:
        """Buttons that begin and cancel, how far it is, and what came of the last one.

        Args:
            kind: of the job.
            words: the command that is begun.
            show: shows what the command found, which it says as JSON.
        """

        def begin() -> None:
            self.begin(kind, words())
            look()

        def cancel() -> None:
            if (job := self._jobs.get(kind)) is not None:
                job.cancel()
            look()

        with ui.row():
            start = ui.button("Run", on_click=begin).props("outline no-caps dense")
            stop = ui.button("Cancel", on_click=cancel).props("flat no-caps dense")
        line = ui.label().classes("mono isolated")
        said = ui.label().props('role="status"')
        body, shown = ui.element("div"), list[Answer]()

        def look() -> None:
            job = self._jobs.get(kind)
            runs = job is not None and job.runs
            start.set_enabled(not runs)
            stop.set_enabled(runs)
            line.set_text(quoted(words() if job is None else job.words))
            if job is None:
                return
            found = job.answer
            said.set_text(printable(job.progress, 200) if found is None else "It is done.")
            if shown != ([] if found is None else [found]):
                shown[:] = [] if found is None else [found]
                body.clear()
                with body:
                    if found is not None:
                        facts = _facts(found)
                        show_answer(found) if facts is None else show(facts)

        look()
        ui.timer(1.0, look)


def _facts(found: Answer) -> Any:
    """What a command found; None where it found nothing, but says why."""
    try:
        return orjson.loads(found.text) if found.status < 2 else None
    except orjson.JSONDecodeError:
        return None
