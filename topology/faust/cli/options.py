"""Options that several commands have."""

from collections.abc import Callable
from typing import Any

from click import Context, FloatRange, IntRange, Parameter
from faust.cli import option
from faust.cli.base import State

SECONDS = FloatRange(min=0)
NUMBER = IntRange(min=1)


def _json(ctx: Context, _: Parameter, value: bool) -> None:
    """`faust -A app audit --json` is what `faust -A app --json audit` is."""
    if value:
        ctx.ensure_object(State).json = True


JSON = option(
    "--json", is_flag=True, default=False, expose_value=False, callback=_json,
    help="Answer in JSON.",
)  # fmt: skip
DRY_RUN = option("--dry-run", is_flag=True, default=False, help="Say only what would be done.")
ONLY_VIEW = option("--view", default="", show_default=False, help="Only this view; else all.")
ONE_VIEW = option(
    "--view", default="", show_default=False, help="The view; optional where there is only one.",
)  # fmt: skip
REASON = option(
    "--reason", default="", show_default=False, help="Only what failed for a reason with this text."
)
SCAN = option(
    "--scan", type=NUMBER, default=None, show_default=False,
    help="Offsets to read at the end of each topic; else as many as take 5 seconds.",
)  # fmt: skip


def older_than(default: str = "0") -> Callable[[Any], Any]:
    """The option of what has waited for some time."""
    return option(
        "--older-than", default=default, show_default=False,
        help="Only what has waited for so long: 90s, 15m, 2h.",
    )  # fmt: skip


def limit(default: int, help: str) -> Callable[[Any], Any]:
    """The option of how many there are at most."""
    return option("--limit", type=NUMBER, default=default, help=help)
