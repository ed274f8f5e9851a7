"""The command that asks workers for the state of a view."""

from typing import Any

import orjson
from click import Choice
from faust.cli import argument, option

from topology.faust.cli.answering import AnsweringCommand
from topology.faust.cli.options import JSON, limit
from topology.faust.querying import query as asked


def register(app: Any) -> None:
    """Add the command to an app's command line."""

    @app.command(  # type: ignore[untyped-decorator]
        argument("view"), argument("stream"),
        option("--what", type=Choice(["rows", "cells", "state"]), default=None, show_default=False,
               help="What is meant; the rows of its folds if it has any, else its state."),
        option("--fold", default="", show_default=False, help="The fold within the view."),
        option("--from", "first", default="", show_default=False, help="The first cell."),
        option("--to", "end", default="", show_default=False, help="The cell behind the last."),
        limit(100, "Rows or cells of a page at most."),
        option("--skip", type=int, default=0, help="Rows or cells before the page."),
        option("--max-staleness", default="", show_default=False,
               help="How old the answer may be: 500ms, 5s. Else it says how old it may be."),
        option("--worker", default="", show_default=False,
               help="URL or host:port of any worker; else that of SEQUITUR_QUERIES."),
        JSON, base=AnsweringCommand,
    )  # fmt: skip
    async def query(
        self: AnsweringCommand, view: str, stream: str, what: str | None, fold: str, first: str,
        end: str, limit: int, skip: int, max_staleness: str, worker: str,
    ) -> None:  # fmt: skip
        """Ask the workers for the rows, cells or state of STREAM in VIEW.

        The exit status is 1 if the view does not know the stream.
        """
        found = await asked(
            self.app, view, stream, worker=worker, what=what, fold=fold, first=first, end=end,
            limit=limit, skip=skip, max_staleness=max_staleness,
        )  # fmt: skip
        text = orjson.dumps(found, option=orjson.OPT_INDENT_2).decode()
        self.answer(text, found, bad=not found["known"])
