"""The looks of `faust -A app`: explain, gaps, views, suggest-timeouts. They need no worker."""

import sys
from collections.abc import Awaitable
from typing import Any, TypeVar

import orjson
from aiokafka.errors import KafkaError
from faust.cli import AppCommand, argument, option

from topology.explain import account_text, ledger_text, tally_text
from topology.faust.looks.durable import NotThere
from topology.faust.looks.explain import explain as explain_stream
from topology.faust.looks.gaps import LIMIT as GAPS
from topology.faust.looks.gaps import gaps as ledger_of
from topology.faust.looks.timeouts import LIMIT as RECORDED
from topology.faust.looks.timeouts import timeouts as timeouts_of
from topology.faust.looks.views import views as tallies_of

T = TypeVar("T")

_JSON = option("--json", "as_json", is_flag=True, default=False, help="Answer in JSON.")


class Look(AppCommand):
    """A command that reads what is durable; the exit status is 2 where that is not possible."""

    redirect_stdouts = False

    async def found(self, looking: Awaitable[T]) -> T:
        """What is found, or the reason why nothing is, on standard error."""
        try:
            return await looking
        except (KeyError, ValueError, NotThere, KafkaError) as error:
            print(error.args[0], file=sys.stderr, flush=True)
            raise SystemExit(2) from None

    def answer(self, text: str, facts: Any, as_json: bool) -> None:
        """Print what was found."""
        print(orjson.dumps(facts, option=orjson.OPT_NON_STR_KEYS).decode() if as_json else text)
        sys.stdout.flush()

    @property
    def start(self) -> str:
        """What a command line for this app begins with."""
        return f"faust -A {self.state.app or self.app.conf.origin or 'app'}"


def register_looks(app: Any) -> None:
    """Add the commands to an app's command line."""

    @app.command(  # type: ignore[untyped-decorator]
        argument("stream"),
        option("--view", default="", help="Only this view; all unless given."),
        _JSON,
        base=Look,
    )
    async def explain(self: Look, stream: str, view: str, as_json: bool) -> None:
        """Say why a stream is where it is, what comes next, and what would help."""
        accounts = await self.found(explain_stream(self.app, stream, view, command=self.start))
        self.answer("\n\n".join(map(account_text, accounts)), accounts, as_json)
        if all(account.situation == "unknown" for account in accounts):
            raise SystemExit(1)

    @app.command(  # type: ignore[untyped-decorator]
        option("--limit", type=int, default=GAPS, help="List so many at most; count the rest."),
        _JSON,
        base=Look,
    )
    async def gaps(self: Look, limit: int, as_json: bool) -> None:
        """List what is missing in which streams, the oldest gap first."""
        ledger = await self.found(ledger_of(self.app, limit=limit))
        self.answer(ledger_text(ledger), ledger, as_json)

    @app.command(_JSON, base=Look)  # type: ignore[untyped-decorator]
    async def views(self: Look, as_json: bool) -> None:
        """Count what became of each view's events; the exit status is 1 if that does not add up."""
        found = await self.found(tallies_of(self.app))
        self.answer(tally_text(found.sources, found.views), found.as_dict(), as_json)
        if not found.adds_up:
            raise SystemExit(1)

    @app.command(  # type: ignore[untyped-decorator]
        option("--source", default="", help="The source; may be left out where there is only one."),
        option("--limit", type=int, default=RECORDED, help="Look at so many messages at most."),
        option("--after", multiple=True, type=float, help="Seconds to try as well."),
        _JSON,
        base=Look,
    )
    async def suggest_timeouts(
        self: Look, source: str, limit: int, after: tuple[float, ...], as_json: bool
    ) -> None:
        """Try times for skip(after=…) on what was recorded."""
        found = await self.found(timeouts_of(self.app, source, limit=limit, candidates=after))
        self.answer(str(found), found, as_json)
