"""The command `sequitur`."""

import os
import sys
from collections.abc import Sequence

import click

from sequitur.cli.group import SETTINGS, Lazy, LazyGroup
from sequitur.cli.statuses import CANNOT, DONE, STOPPED

COMMANDS = {
    "new": Lazy("sequitur.new.command", "Write a project that runs, with a test."),
    "demo": Lazy("sequitur.demo.command", "Run everything here over the flights of a year."),
    "broker": Lazy("sequitur.broker", "Run a Kafka broker on this machine."),
    "console": Lazy("sequitur.console.command", "Operate a topology in a browser."),
    "materialize": Lazy(
        "sequitur.materialize.command", "Turn output topics into read-store tables."
    ),
    "live": Lazy("sequitur.live", "Run a topology on Spark instead of Faust workers."),
    "rebuild": Lazy("sequitur.rebuild.command", "Rebuild views from history."),
    "relay": Lazy("sequitur.relay.command", "Move a message log to Kafka or to an inbox."),
    "inbox": Lazy("sequitur.inbox.command", "Fill an inbox, and list what it has."),
    "units": Lazy("sequitur.units.command", "Serve units of order, and administer them."),
    "route": Lazy("sequitur.route.command", "Check rules of routing, try them, compare them."),
    "sites": Lazy("sequitur.sites.command", "Link sites, and take over one that is lost."),
    "replay": Lazy("sequitur.replay.command", "Capture what is published, and find it again."),
    "alerts": Lazy("sequitur.alerts.command", "Watch topics of errors, and tell somebody."),
    "two-phase": Lazy("sequitur.two_phase", "Resolve transactions that are in doubt."),
    "dead-records": Lazy(
        "sequitur.materialize.dead_records", "List or remove what a read store refused."
    ),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings=SETTINGS)
@click.version_option(package_name="sequitur")
def sequitur() -> None:
    """Run what belongs to a topology besides its workers.

    Workers, and what inspects them, are commands of an app: faust -A MODULE.
    Exit status: 0 done, or stopped in order; 1 the answer is bad news; 2 it could
    not be done, and one line says why; 130 stopped before its end.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    try:
        status = sequitur.main(arguments, prog_name="sequitur", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return CANNOT
    except click.ClickException as error:
        ctx = getattr(error, "ctx", None)
        path = "sequitur" if ctx is None else ctx.command_path
        print(f"{path}: error: {' '.join(error.format_message().split())}", file=sys.stderr)
        return CANNOT
    except click.Abort:
        return STOPPED
    return DONE if status is None else int(status)


def run() -> None:
    """Run the command of this process; it imports from the working directory, as Python does."""
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    sys.exit(main())
