"""`sequitur demo`: every part on this machine, over the flights of a year."""

import signal
import sys
from pathlib import Path

import click
from confluent_kafka import KafkaException

from sequitur.cli.group import Command
from sequitur.cli.options import COUNT, FILE
from sequitur.cli.signals import note_signals
from sequitur.cli.statuses import BAD_NEWS, CANNOT, DONE
from sequitur.demo.display import Display
from sequitur.demo.processes import ChildFailed
from sequitur.demo.run import Demo, Options, Outcome, Stuck
from sequitur.demo.summary import summary
from sequitur.flights.network import Network
from sequitur.local.home import HOME, LocalError, locked
from stores.paths import is_there

_DIFFERENCES_SHOWN = 20
_LOCK = "sequitur-demo.lock"
_DEFAULT = Network()


@click.command("demo", cls=Command)
@click.option("--events", type=COUNT, default=200_000, show_default=True, help="Movements to send.")
@click.option("--all", "everything", is_flag=True, help="Send all 655,867 movements of the year.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=_DEFAULT.seed,
    show_default=True,
    help="Of the network.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    default=_DEFAULT.rate,
    show_default=True,
    help="Movements a second.",
)
@click.option("--read-store", "store", type=FILE, help="An SQLite file (in the folder).")
@click.option("--folder", type=FILE, default=HOME / "demo", help="For logs and data.")
@click.option("--keep", is_flag=True, help="Keep the data of Kafka and the worker.")
@click.option(
    "--kill-worker-at",
    type=click.FloatRange(0, 1),
    metavar="PART",
    help="Kill the worker and delete its data after this part (0 to 1) of the messages.",
)
def command(
    events: int,
    everything: bool,
    seed: int,
    rate: float,
    store: Path | None,
    folder: Path,
    keep: bool,
    kill_worker_at: float | None,
) -> int:
    """Run everything on this machine over the flights out of New York of 2013.

    A simulated network sends them late, twice or not at all; the read store is
    compared with the source table at the end. Status 1: they differ. Ctrl-C stops
    all that was started.
    """
    folder = folder.absolute()
    return run(
        Options(
            folder=folder,
            store=(store or folder / "flights.sqlite").absolute(),
            network=Network(seed=seed, rate=rate),
            events=None if everything else events,
            kill_worker_at=kill_worker_at,
            keep=keep,
        )
    )


def _refusal(chosen: Options) -> str | None:
    """Why the folder or the store cannot be taken: a run deletes what an earlier one left there."""
    folder, store = chosen.folder, chosen.store
    if (
        is_there(folder)
        and not (folder / _LOCK).exists()
        and (not folder.is_dir() or any(folder.iterdir()))
    ):
        return f"{folder} is no folder of an earlier demo; choose a new or an empty one"
    if is_there(store) and store.parent != folder:
        return f"{store} exists; delete it, or choose another file for the read store"
    return None


def _report(outcome: Outcome, chosen: Options, display: Display) -> int:
    """Say what came of it; the exit status."""
    differences = outcome.verification.differences
    for difference in differences[:_DIFFERENCES_SHOWN]:
        display.say(f"  {difference}")
    if len(differences) > _DIFFERENCES_SHOWN:
        display.say(f"  … and {len(differences) - _DIFFERENCES_SHOWN:,} more")
    display.say(summary(outcome, chosen.store))
    display.say(str(outcome.verification))
    return BAD_NEWS if differences else DONE


def run(chosen: Options) -> int:
    """Run the demo; return the exit status: 0 only where the read store is right."""
    try:
        return _run(chosen)
    except OSError as error:  # of the folder
        print(f"the demo failed: {error}", file=sys.stderr)
        return CANNOT


def _run(chosen: Options) -> int:
    if (refusal := _refusal(chosen)) is not None:
        print(refusal, file=sys.stderr)
        return CANNOT
    with Display() as display, locked(chosen.folder / _LOCK, wait=False) as ours:
        if not ours:
            display.say(f"another demo is running in {chosen.folder}; choose another --folder")
            return CANNOT
        note_signals(signal.SIGTERM, signal.SIGHUP)
        try:
            return _report(Demo(chosen, display).run(), chosen, display)
        except KeyboardInterrupt as stopped:
            display.say("stopped; nothing that was started is running any more")
            return 128 + int(stopped.args[0])
        except (ChildFailed, LocalError, Stuck, KafkaException, TimeoutError) as error:
            display.say(f"the demo failed: {error}")
            return CANNOT
