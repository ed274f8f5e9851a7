"""The looks of `faust -A app`: explain, gaps, views, parked, commands. They need no worker."""

from typing import Any

from click import Choice
from faust.cli import argument, option

from topology.diagnostics.explain import account_text, ledger_text, tally_text
from topology.diagnostics.explain.parked import parked_text
from topology.diagnostics.explain.tally import SHARE
from topology.diagnostics.explain.times import seconds_of
from topology.diagnostics.explain.told import told_text
from topology.diagnostics.explain.trouble import HALTED, MALFORMED, PLACES, UNASSIGNED, Trouble
from topology.faust.inspection.answering import JSON, Answering
from topology.faust.inspection.commands import LIMIT as COMMANDS
from topology.faust.inspection.commands import commands as commands_of
from topology.faust.inspection.explain import explain as explain_stream
from topology.faust.inspection.gaps import LIMIT as GAPS
from topology.faust.inspection.gaps import gaps as ledger_of
from topology.faust.inspection.parked import LIMIT as PARKED
from topology.faust.inspection.parked import parked as parked_of
from topology.faust.inspection.timeouts import LIMIT as RECORDED
from topology.faust.inspection.timeouts import timeouts as timeouts_of
from topology.faust.inspection.views import views as tallies_of

_VIEW = option("--view", default="", help="Only this view; all unless given.")
_ALLOW = option(
    "--allow", multiple=True, type=Choice([*PLACES, HALTED, UNASSIGNED, MALFORMED]),
    help="Take what is there for no bad news: dead, failed, late, …",
)  # fmt: skip
_LOOK = option("--look", type=int, default=None, help="Look so far back in topics.")


def _bad(troubles: list[Trouble], allowed: tuple[str, ...]) -> bool:
    """Whether there is bad news, but for what is known and allowed."""
    return any(trouble.place not in allowed for trouble in troubles)


def register_looks(app: Any) -> None:
    """Add the commands to an app's command line."""

    @app.command(  # type: ignore[untyped-decorator]
        argument("stream"),
        _VIEW,
        _LOOK,
        JSON,
        base=Answering,
    )
    async def explain(
        self: Answering, stream: str, view: str, look: int | None, as_json: bool
    ) -> None:
        """Say why a stream is where it is, what comes next, and what would help.

        The exit status is 1 unless all is well with it in all of the views.
        """
        accounts = await explain_stream(self.app, stream, view, command=self.start, look=look)
        self.answer("\n\n".join(map(account_text, accounts)), accounts, as_json)
        known = [account for account in accounts if account.situation != "unknown"]
        if not known or not all(account.well for account in known):
            raise SystemExit(1)

    @app.command(  # type: ignore[untyped-decorator]
        _VIEW,
        option("--limit", type=int, default=GAPS, help="List so many at most; count the rest."),
        _ALLOW,
        _LOOK,
        JSON,
        base=Answering,
    )
    async def gaps(
        self: Answering, view: str, limit: int, allow: tuple[str, ...], look: int | None,
        as_json: bool,
    ) -> None:  # fmt: skip
        """List what is missing in which streams, the oldest gap first.

        The exit status is 1 if something is, or if something else is not well.
        """
        ledger = await ledger_of(self.app, view=view, limit=limit, look=look)
        self.answer(ledger_text(ledger), ledger, as_json)
        if ledger.streams or _bad(ledger.troubles, allow):
            raise SystemExit(1)

    @app.command(  # type: ignore[untyped-decorator]
        option(
            "--malformed", type=float, default=SHARE,
            help="The share of malformed messages (0 to 1) that is too many.",
        ),
        _ALLOW,
        JSON,
        base=Answering,
    )  # fmt: skip
    async def views(
        self: Answering, malformed: float, allow: tuple[str, ...], as_json: bool
    ) -> None:
        """Count what became of each view's events.

        The exit status is 1 if that does not add up, or if something is where it should not be.
        """
        found = await tallies_of(self.app)
        self.answer(tally_text(found.sources, found.views, malformed), found.as_dict(), as_json)
        if not found.adds_up or _bad(found.troubles(malformed), allow):
            raise SystemExit(1)

    @app.command(  # type: ignore[untyped-decorator]
        _VIEW,
        option("--older-than", default="0", help="Those that have waited for so long: 15m."),
        option("--reason", default="", help="Those that failed for a reason with this text."),
        option("--limit", type=int, default=PARKED, help="List so many at most; count the rest."),
        _LOOK,
        JSON,
        base=Answering,
    )
    async def parked(
        self: Answering, view: str, older_than: str, reason: str, limit: int, look: int | None,
        as_json: bool,
    ) -> None:  # fmt: skip
        """List the parked streams, the oldest first; the exit status is 1 if there is one."""
        old = seconds_of(older_than)
        every = await parked_of(self.app, view=view, look=look)
        found = every.older(old, reason)
        self.answer(parked_text(found, limit), found, as_json)
        if found.streams:
            raise SystemExit(1)

    @app.command(  # type: ignore[untyped-decorator]
        _VIEW,
        option("--limit", type=int, default=COMMANDS, help="List so many at most, the last ones."),
        JSON,
        base=Answering,
    )
    async def commands(self: Answering, view: str, limit: int, as_json: bool) -> None:
        """List what operators told the views: what waits, and what came of the rest."""
        now, found, unseen = await commands_of(self.app, view=view, limit=limit)
        self.answer(told_text(found, now, unseen), found, as_json)

    @app.command(  # type: ignore[untyped-decorator]
        option("--source", default="", help="The source; may be left out where there is only one."),
        option("--limit", type=int, default=RECORDED, help="Look at so many messages at most."),
        option("--after", multiple=True, type=float, help="Seconds to try as well."),
        JSON,
        base=Answering,
    )
    async def suggest_timeouts(
        self: Answering, source: str, limit: int, after: tuple[float, ...], as_json: bool
    ) -> None:
        """Try times for skip(after=…) on what was recorded."""
        found = await timeouts_of(self.app, source, limit=limit, candidates=after)
        self.answer(str(found), found, as_json)
