"""The commands of what was set aside: dead, late, malformed, unknown, errors, and replay."""

from typing import Any

from click import Choice, IntRange
from faust.cli import argument

from topology.diagnostics.side_topics import (
    SIDES,
    SideFilter,
    full_text,
    groups_text,
    list_text,
)
from topology.faust.cli.answering import AnsweringCommand
from topology.faust.cli.options import (
    DRY_RUN,
    GROUP,
    JSON,
    ONLY_VIEW,
    SCAN,
    SINCE,
    STREAM,
    TEXT,
    UNTIL,
    WHY,
    before,
    limit,
    meant,
)
from topology.faust.inspection.side_topics import LIMIT, side_record, side_topic
from topology.faust.kafka.worker_clock import wall
from topology.faust.operation.malformed_messages import replay_messages

_ABOUT = {
    "dead": "events that a view gave up; redrive-dead puts them back",
    "late": "events whose sequence was passed",
    "malformed": "messages that no inspector could read; replay sends them again",
    "unknown": "messages that no inspector knows; replay sends them again",
    "errors": "failures of handlers",
}


def register(app: Any) -> None:
    """Add the commands to an app's command line."""
    for side in SIDES:
        _register(app, side)

    @app.command(  # type: ignore[untyped-decorator]
        argument("side", type=Choice(["malformed", "unknown"])), TEXT, SINCE, UNTIL, DRY_RUN,
        WHY, JSON, base=AnsweringCommand,
    )  # fmt: skip
    async def replay(
        self: AnsweringCommand, side: str, reason: str, since: float | None,
        until: float | None, dry_run: bool, why: str,
    ) -> None:  # fmt: skip
        """Send messages that were no events to their topics again, each once.

        Only those that the inspectors understand by now.
        """
        choice = await _chosen(self.app, "", "", reason, since, until)
        made = await replay_messages(self.app, side, choice, dry_run=dry_run, why=why)
        self.answer(str(made), made.as_dict(), bad=bool(made.left))


def _register(app: Any, side: str) -> None:
    async def command(
        self: AnsweringCommand, offset: int | None, view: str, stream: str, reason: str,
        since: float | None, until: float | None, group: bool, limit: int, scan: int | None,
    ) -> None:  # fmt: skip
        if offset is not None:
            one = await side_record(self.app, side, offset)
            self.answer("\n".join(full_text(one, wall())), one.in_full())
            return
        choice = await _chosen(self.app, view, stream, reason, since, until)
        found = await side_topic(self.app, side, choice, limit=limit, scan=scan)
        if group:
            lines = groups_text(side, found.groups, found.now)
        else:
            lines = list_text(side, found.records, found.count, found.now)
        self.answer("\n".join([*lines, *found.unseen]), found.as_dict())

    command.__name__ = side
    command.__doc__ = f"List {_ABOUT[side]}; with OFFSET, show one in full."
    app.command(
        argument("offset", type=IntRange(min=0), default=None, required=False),
        *(ONLY_VIEW, STREAM, TEXT, SINCE, UNTIL, GROUP),
        limit(LIMIT, "Records to list at most, the last ones; all are counted."),
        *(SCAN, JSON),
        base=AnsweringCommand,
    )(command)


async def _chosen(
    app: Any, view: str, stream: str, reason: str, since: float | None, until: float | None
) -> SideFilter:
    times = await before(app, since, until)
    return SideFilter(view, stream, reason, *times, meant(app, stream))
