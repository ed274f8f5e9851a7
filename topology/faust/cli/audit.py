"""`faust -A app audit`: exit status 0 if all is in order and complete, or may still become so.

1 is bad news: a violation, or what is dead, failed, late, parked, skipped, malformed or halted.
2 is that it could not be looked at.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
from faust.cli import option

from topology.diagnostics.audit import differences, saved, saved_views
from topology.faust.cli.answering import AnsweringCommand
from topology.faust.cli.options import DURATION, JSON
from topology.faust.inspection.auditing import PATIENCE
from topology.faust.inspection.auditing import audit as audited
from topology.model.counted import counted

SHOWN = 20
"""Differences that are printed; the rest is counted."""

_SAVE = option(
    "--save", default="", show_default=False,
    help="A file to write the hash of each stream's outputs to.",
)  # fmt: skip
_COMPARE = option(
    "--compare", default="", show_default=False, help="A file of another run to compare with."
)
_PATIENCE = option(
    "--patience", type=DURATION, default=f"{PATIENCE:g}s",
    help="How long to wait for a moment in which no worker commits.",
)  # fmt: skip
_CONTENTS = option(
    "--contents", is_flag=True, default=False,
    help="Run the handlers again, and compare what they yield with what is recorded.",
)  # fmt: skip
_VIEW = option("--view", "views", multiple=True, help="Only this view; may be repeated.")


def register(app: Any) -> None:
    """Add the command to an app's command line."""

    @app.command(  # type: ignore[untyped-decorator]
        _VIEW, _CONTENTS, _SAVE, _COMPARE, _PATIENCE, JSON, base=AnsweringCommand
    )
    async def audit(self: AnsweringCommand, save: str, compare: str, **options: Any) -> None:
        """Prove from all topics that every message is in one place, and once.

        The exit status is 1 for a violation, for bad news of a view, and for a difference.
        """
        other = _read(compare) if compare else None
        report = await audited(self.app, **options)
        found = [] if other is None else differences(report, other)
        if save:
            Path(save).write_bytes(orjson.dumps(saved(report), option=orjson.OPT_INDENT_2))
        facts, lines = report.as_dict(), [str(report)]
        if other is not None:
            facts["differences"] = [
                {"view": each.view, "stream": each.stream, "what": each.what} for each in found
            ]
            lines += _differences([str(each) for each in found], compare)
        self.answer("\n".join(lines), facts, bad=bool(found) or not report.clean)


def _read(compare: str) -> Any:
    """What another run has saved. Raises ValueError, OSError."""
    try:
        found = orjson.loads(Path(compare).read_bytes())
        saved_views(found)
    except ValueError as error:
        raise ValueError(f"{compare}: {error}") from None
    return found


def _differences(found: list[str], compare: str) -> Iterator[str]:
    for text in found[:SHOWN]:
        yield f"  {text}"
    if len(found) > SHOWN:
        yield f"  … and {len(found) - SHOWN:,} more"
    number = counted(len(found), "stream of a view differs", "streams of a view differ")
    yield f"{number} from {compare}" if found else f"the same as {compare}"
