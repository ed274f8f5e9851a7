"""Options that several commands have."""

from collections.abc import Callable
from typing import Any

from click import BadParameter, ClickException, Context, IntRange, Parameter, ParamType
from faust.cli import option
from faust.cli.base import State

from topology.engine.state.lane_names import Meant, meant_by
from topology.faust.kafka.broker.clock import agree_on_time
from topology.faust.kafka.worker_clock import wall
from topology.model.duration import seconds_of


class _Refused(ClickException):
    """A wrong value, in one line: a mistake on the command line."""

    exit_code = 2


class Duration(ParamType):
    """A duration with its unit, as seconds."""

    name = "duration"

    def convert(self, value: str, param: Parameter | None, ctx: Context | None) -> float:
        """Read it; what is none is refused with the reason."""
        try:
            return seconds_of(value)
        except ValueError as error:
            reason = BadParameter(str(error), ctx, param).format_message()
            raise _Refused(reason) from None


DURATION = Duration()
NUMBER = IntRange(min=1)


def _json(ctx: Context, _: Parameter, value: bool) -> None:
    """`faust -A app audit --json` is what `faust -A app --json audit` is."""
    if value:
        ctx.ensure_object(State).json = True


def _window(ctx: Context, param: Parameter, value: float | None) -> float | None:
    """Refuse a time between whose ends is nothing; whichever end is read last sees the other."""
    ends = {**ctx.params, param.name or "": value}
    since, until = ends.get("since"), ends.get("until")
    if since is not None and until is not None and until >= since:
        raise _Refused(
            "nothing is of the time since --since and older than --until: --since is the longer "
            "time ago, as in --since 2h --until 1h"
        )
    return value


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
STREAM = option("--stream", default="", show_default=False, help="Only of this stream.")
TEXT = option(
    "--reason", default="", show_default=False, help="Only those with this text in their reasons."
)
SINCE = option(
    "--since", type=DURATION, default=None, callback=_window, help="Only of the last 15m, 2h, 3d.",
)  # fmt: skip
UNTIL = option(
    "--until", type=DURATION, default=None, callback=_window, help="Only what is older than this.",
)  # fmt: skip
GROUP = option("--group", is_flag=True, default=False, help="Count them by view and reason.")
WHY = option("--why", default="", show_default=False, help="Why, for the record.")
SCAN = option(
    "--scan", type=NUMBER, default=None, show_default=False,
    help="Offsets to read at the end of each topic; else as many as take 5 seconds.",
)  # fmt: skip
OLDER_THAN = option(
    "--older-than", type=DURATION, default=None,
    help="Only what has waited for so long: 90s, 15m, 2h, 3d.",
)  # fmt: skip


def limit(default: int, help: str) -> Callable[[Any], Any]:
    """The option of how many there are at most."""
    return option("--limit", type=NUMBER, default=default, help=help)


def meant(app: Any, stream: str) -> Meant:
    """What `--stream` names in the views of an app."""
    return meant_by(app.engine.topology.views, stream)


async def before(
    app: Any, since: float | None, until: float | None
) -> tuple[int | None, int | None]:
    """(from which time on, before which), in ms by the workers' clock, of ages in seconds."""
    if since is not None or until is not None:
        await agree_on_time(app)
    now = wall()
    first, last = (None if age is None else now - round(age * 1000) for age in (since, until))
    return first, last
