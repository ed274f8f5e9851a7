"""The command `faust -A app redrive-dead`."""

from typing import ClassVar

from faust.cli import option

from topology.diagnostics.explain.times import seconds_of
from topology.engine.dead_events import Choice
from topology.faust.inspection.answering import Answering
from topology.faust.inspection.named import view_of
from topology.faust.kafka.worker_clock import wall
from topology.faust.operation.dead_events import redrive_dead

CHOICE = (
    option("--stream", default=None, help="Only dead events of this stream."),
    option("--reason", default=None, help="Only those with this text in their reason."),
    option("--older-than", default="0", help="Only those dead for so long: 90s, 15m, 2h."),
    option("--dry-run", is_flag=True, default=False, help="Only say what would be put back."),
)


class Redrive(Answering):
    """Reads and writes topics by itself; a worker takes what it put back."""

    abstract: ClassVar[bool] = True

    async def redrive(
        self,
        name: str,
        stream: str | None,
        reason: str | None,
        older_than: str,
        *,
        dry_run: bool,
        as_json: bool,
    ) -> None:
        """Do it, and say what was done."""
        view = view_of(self.app, name)
        choice = Choice(stream, reason, wall() - round(seconds_of(older_than) * 1000))
        done = await redrive_dead(self.app, view, choice, dry_run=dry_run)
        self.answer(str(done), done.as_dict(), as_json)
