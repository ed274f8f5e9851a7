"""The command `faust -A app redrive-dead`."""

import sys

import orjson
from faust.cli import AppCommand, option

from topology.dead import Choice
from topology.faust.clock import wall
from topology.faust.dead import redrive_dead
from topology.faust.looks.durable import NotThere
from topology.faust.operate import view_of

CHOICE = (
    option("--stream", default=None, help="Only dead events of this stream."),
    option("--reason", default=None, help="Only those with this text in their reason."),
    option("--older-than", type=float, default=0.0, help="Only those dead for so many seconds."),
    option("--dry-run", is_flag=True, default=False, help="Only say what would be put back."),
)


class Redrive(AppCommand):
    """Reads and writes topics by itself; a worker takes what it put back."""

    redirect_stdouts = False

    async def redrive(
        self,
        name: str,
        stream: str | None,
        reason: str | None,
        older_than: float,
        *,
        dry_run: bool,
        as_json: bool,
    ) -> None:
        """Do it, and say what was done."""
        try:
            view = view_of(self.app, name)
            choice = Choice(stream, reason, wall() - round(older_than * 1000))
            done = await redrive_dead(self.app, view, choice, dry_run=dry_run)
        except (KeyError, NotThere, OSError, RuntimeError) as error:
            text = error.args[0] if isinstance(error, KeyError | NotThere) else error
            print(text, file=sys.stderr, flush=True)
            raise SystemExit(2) from None
        print(orjson.dumps(done.as_dict()).decode() if as_json else done)
        sys.stdout.flush()
