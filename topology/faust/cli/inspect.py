"""The commands that read: explain, gaps, views, parked, commands, suggest-timeouts.

They read topics, stop nothing and need no worker.
"""

from typing import Any

from click import Choice, FloatRange
from faust.cli import argument, option

from topology.diagnostics.explain import account_text, gaps_text, tally_text
from topology.diagnostics.explain.bad_news import (
    HALTED,
    LOST,
    MALFORMED,
    PLACES,
    STILL,
    UNASSIGNED,
    Trouble,
)
from topology.diagnostics.explain.command_log import CommandFilter, command_text, commands_text
from topology.diagnostics.explain.parked_streams import parked_text
from topology.diagnostics.explain.source_totals import SHARE
from topology.diagnostics.parked_groups import groups_text
from topology.faust.cli.answering import AnsweringCommand
from topology.faust.cli.options import (
    DURATION,
    GROUP,
    JSON,
    OLDER_THAN,
    ONLY_VIEW,
    REASON,
    SCAN,
    SINCE,
    STREAM,
    TEXT,
    UNTIL,
    before,
    limit,
    meant,
)
from topology.faust.inspection import commands as found_commands
from topology.faust.inspection import explain as found_accounts
from topology.faust.inspection import gaps as found_gaps
from topology.faust.inspection import parked as found_parked
from topology.faust.inspection import suggest_timeouts as found_timeouts
from topology.faust.inspection import views as found_views
from topology.faust.inspection.command_log import LIMIT as COMMANDS
from topology.faust.inspection.gap_ledger import LIMIT as GAPS
from topology.faust.inspection.parked_streams import LIMIT as PARKED
from topology.faust.inspection.suggested_timeouts import LIMIT as MESSAGES

_ALLOW = option(
    "--allow", multiple=True, type=Choice([*PLACES, HALTED, UNASSIGNED, MALFORMED, STILL, LOST]),
    help="Bad news that is known of and passed over; may be repeated.",
)  # fmt: skip
_SHARE = option(
    "--malformed", type=FloatRange(0, 1), default=SHARE,
    help="The share of malformed messages (0 to 1) that is too many.",
)  # fmt: skip
_SOURCE = option(
    "--source", default="", show_default=False, help="The source; optional where there is only one."
)
_AFTER = option("--after", multiple=True, type=DURATION, help="A time to try, besides.")


def _bad(troubles: list[Trouble], allowed: tuple[str, ...]) -> bool:
    """Whether there is bad news, but for what is known and allowed."""
    return any(trouble.place not in allowed for trouble in troubles)


def register(app: Any) -> None:
    """Add the commands to an app's command line."""

    @app.command(argument("stream"), ONLY_VIEW, SCAN, JSON, base=AnsweringCommand)  # type: ignore[untyped-decorator]
    async def explain(self: AnsweringCommand, stream: str, view: str, scan: int | None) -> None:
        """Explain where STREAM is in each view, what happens next, and what would help.

        The exit status is 1 unless all is well with the stream in all of the views.
        """
        accounts = await found_accounts(self.app, stream, view, command=self.start, scan=scan)
        known = [account for account in accounts if account.situation != "unknown"]
        bad = not known or not all(account.well for account in known)
        self.answer(
            "\n\n".join(map(account_text, accounts)), [each.as_dict() for each in accounts], bad=bad
        )

    @app.command(  # type: ignore[untyped-decorator]
        ONLY_VIEW, limit(GAPS, "Gaps to list at most; the rest is counted."), _ALLOW, SCAN, JSON,
        base=AnsweringCommand,
    )  # fmt: skip
    async def gaps(
        self: AnsweringCommand, view: str, limit: int, allow: tuple[str, ...], scan: int | None
    ) -> None:
        """List the sequences that streams wait for, the oldest gap first.

        The exit status is 1 if there is a gap, or other bad news of a view.
        """
        ledger = await found_gaps(self.app, view=view, limit=limit, scan=scan)
        bad = bool(ledger.streams) or _bad(ledger.troubles, allow)
        self.answer(gaps_text(ledger), ledger, bad=bad)

    @app.command(_SHARE, _ALLOW, JSON, base=AnsweringCommand)  # type: ignore[untyped-decorator]
    async def views(self: AnsweringCommand, malformed: float, allow: tuple[str, ...]) -> None:
        """Count each view's events by the place that they are in.

        The exit status is 1 if the counts do not add up, or if there is bad news of a view.
        """
        found = await found_views(self.app)
        bad = not found.adds_up or _bad(found.troubles(malformed), allow)
        text = tally_text(found.sources, found.views, malformed, found.parallel)
        self.answer(text, found.as_dict(malformed), bad=bad)

    @app.command(  # type: ignore[untyped-decorator]
        ONLY_VIEW, STREAM, OLDER_THAN, REASON, GROUP,
        limit(PARKED, "Streams to list at most; the rest is counted."), SCAN, JSON,
        base=AnsweringCommand,
    )  # fmt: skip
    async def parked(
        self: AnsweringCommand, view: str, stream: str, older_than: float | None, reason: str,
        group: bool, limit: int, scan: int | None,
    ) -> None:  # fmt: skip
        """List the parked streams, the oldest first, each with what failed.

        The exit status is 1 if there is one.
        """
        found = await found_parked(self.app, view=view, scan=scan)
        found = found.older(older_than or 0, reason, stream, meant(self.app, stream))
        text = "\n".join(groups_text(found)) if group else parked_text(found, limit)
        self.answer(text, found, bad=bool(found.streams))

    @app.command(  # type: ignore[untyped-decorator]
        argument("id", default="", required=False), ONLY_VIEW, STREAM, TEXT, SINCE, UNTIL,
        limit(COMMANDS, "Commands to list at most, the last ones."), JSON, base=AnsweringCommand,
    )  # fmt: skip
    async def commands(
        self: AnsweringCommand, id: str, view: str, stream: str, reason: str,
        since: float | None, until: float | None, limit: int,
    ) -> None:  # fmt: skip
        """List what operators told the views: what waits, and what came of the rest.

        With an ID, or the beginning of one, show it in full.
        """
        times = await before(self.app, since, until)
        choice = CommandFilter(id, stream, reason, *times, meant(self.app, stream))
        now, found, unseen = await found_commands(self.app, view=view, limit=limit, choice=choice)
        text = [command_text(each, now) for each in found] if id and found else []
        whole = choice == CommandFilter() and not view
        chosen = "was given" if whole else "that was asked for was given"
        told = commands_text(found, now, unseen, chosen)
        self.answer("\n\n".join(text) or told, found)

    @app.command(  # type: ignore[untyped-decorator]
        _SOURCE, limit(MESSAGES, "Recorded messages to try at most, the last ones."), _AFTER, JSON,
        base=AnsweringCommand,
    )  # fmt: skip
    async def suggest_timeouts(
        self: AnsweringCommand, source: str, limit: int, after: tuple[float, ...]
    ) -> None:
        """Try times for skip(after=…) on the messages that a source has recorded."""
        found = await found_timeouts(self.app, source, limit=limit, candidates=after)
        self.answer(str(found), found)
