"""`faust -A app audit`: exit status 0 if all is in order and complete, or may still become so.

1 is bad news: a violation, or what is dead, failed, late, parked, skipped, malformed or halted.
2 is that it could not be looked at.
"""

import sys
from pathlib import Path
from typing import Any

import orjson
from faust.cli import option

from topology.audit import Report, differences, saved
from topology.faust.answering import Answering
from topology.faust.auditing import PATIENCE, audit

SHOWN = 20
"""Differences that are printed; of more there is the number."""

_JSON = option("--json", "as_json", is_flag=True, default=False, help="Answer in JSON.")
_SAVE = option("--save", default="", help="A file to write the hash of each stream's outputs to.")
_COMPARE = option("--compare", default="", help="A file of another run to compare with.")
_PATIENCE = option(
    "--patience", type=float, default=PATIENCE,
    help="Seconds to wait for a moment in which no worker commits.",
)  # fmt: skip
_CONTENTS = option(
    "--contents", is_flag=True, default=False,
    help="Run handlers again, too, and compare what they say with what was said.",
)  # fmt: skip
_VIEW = option("--view", "views", multiple=True, help="Only this view; may come more than once.")


class Auditor(Answering):
    """A command that reads, and that needs no worker."""

    async def tell(
        self,
        *,
        as_json: bool,
        save: str,
        compare: str,
        patience: float,
        views: tuple[str, ...],
        contents: bool,
    ) -> None:
        """Audit, print, and end with the exit status."""
        other = orjson.loads(Path(compare).read_bytes()) if compare else None
        report = await audit(self.app, patience=patience, views=views, contents=contents)
        found = [] if other is None else differences(report, other)
        if save:
            Path(save).write_bytes(orjson.dumps(saved(report), option=orjson.OPT_INDENT_2))
        if as_json:
            told = report.as_dict()
            if other is not None:
                told["differences"] = [
                    {"view": each.view, "stream": each.stream, "what": each.what} for each in found
                ]
            print(orjson.dumps(told).decode())
        else:
            _print(report, None if other is None else [str(each) for each in found], compare)
        sys.stdout.flush()
        if found or not report.clean:
            raise SystemExit(1)


def _print(report: Report, found: list[str] | None, compare: str) -> None:
    print(report)
    if found is None:
        return
    for text in found[:SHOWN]:
        print(f"  {text}")
    if len(found) > SHOWN:
        print(f"  … and {len(found) - SHOWN:,} more")
    number = f"{len(found):,} stream{'' if len(found) == 1 else 's'}"
    print(f"{number} of a view differ from {compare}" if found else f"the same as {compare}")


def register(app: Any) -> None:
    """Add the command to an app's command line."""

    @app.command(  # type: ignore[untyped-decorator]
        _JSON, _SAVE, _COMPARE, _PATIENCE, _VIEW, _CONTENTS, base=Auditor
    )
    async def audit(
        self: Auditor,
        as_json: bool,
        save: str,
        compare: str,
        patience: float,
        views: tuple[str, ...],
        contents: bool,
    ) -> None:
        """Prove from all topics that every message is in one place, and once."""
        await self.tell(
            as_json=as_json,
            save=save,
            compare=compare,
            patience=patience,
            views=views,
            contents=contents,
        )
