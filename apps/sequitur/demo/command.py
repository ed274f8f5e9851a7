"""`python -m sequitur.demo.command`, which scripts/demo runs after set-up."""

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from sequitur.cli.signals import interrupted_by
from sequitur.demo.display import Display
from sequitur.demo.processes import ChildFailed
from sequitur.demo.run import Demo, Options, Outcome, Stuck
from sequitur.demo.summary import summary
from sequitur.flights.network import Network
from sequitur.local.home import HOME, LocalError, locked

_DIFFERENCES_SHOWN = 20
_LOCK = "sequitur-demo.lock"


def _part(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("a part of the whole is between 0 and 1")
    return value


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError("it must be above 0")
    return value


def _count(text: str) -> int:
    value = int(text.replace("_", "").replace(",", ""))
    if value < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("it must be at least 0")
    return value


def options(arguments: list[str] | None = None) -> Options:
    """Read the command line; it exits with usage where that is wrong."""
    default = Network()
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="Run all of Sequitur on this machine over the flights out of New York of 2013, "
        "sent by a simulated network, and compare the read store with the source table.",
    )
    add = parser.add_argument
    add("--events", type=_count, default=200_000, help="movements to send (default: %(default)s)")
    add("--all", action="store_true", help="send the whole year's 655,867 movements")
    add("--seed", type=_seed, default=default.seed, help="of the network (default: %(default)s)")
    add("--rate", type=_positive, default=default.rate, help="movements a second (%(default)s)")
    add("--store", type=Path, help="the read store, an SQLite file (in the folder, if not given)")
    add("--folder", type=Path, default=HOME / "demo", help="for logs and data (.sequitur/demo)")
    add("--keep", action="store_true", help="keep Kafka's and the worker's data in the folder")
    add(
        "--kill-worker-at",
        type=_part,
        metavar="PART",
        help="kill the worker after this part of the messages (0 to 1), delete its data folder and "
        "start another",
    )
    given = parser.parse_args(arguments)
    folder = given.folder.absolute()
    return Options(
        folder=folder,
        store=(given.store or folder / "flights.sqlite").absolute(),
        network=Network(seed=given.seed, rate=given.rate),
        events=None if given.all else given.events,
        kill_worker_at=given.kill_worker_at,
        keep=given.keep,
    )


def _refusal(chosen: Options) -> str | None:
    """Why the folder or the store cannot be taken: a run deletes what an earlier one left there."""
    folder, store = chosen.folder, chosen.store
    if (
        folder.exists()
        and not (folder / _LOCK).exists()
        and (not folder.is_dir() or any(folder.iterdir()))
    ):
        return f"{folder} is no folder of an earlier demo; choose a new or an empty one"
    if store.exists() and store.parent != folder:
        return f"{store} exists; delete it, or choose another file for the read store"
    return None


def _terminated(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _report(outcome: Outcome, chosen: Options, display: Display) -> int:
    """Say what came of it; the exit status."""
    differences = outcome.verification.differences
    for difference in differences[:_DIFFERENCES_SHOWN]:
        display.say(f"  {difference}")
    if len(differences) > _DIFFERENCES_SHOWN:
        display.say(f"  … and {len(differences) - _DIFFERENCES_SHOWN:,} more")
    display.say(summary(outcome, chosen.store))
    display.say(str(outcome.verification))
    return 1 if differences else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the demo; return the exit status: 0 only where the read store is right."""
    chosen = options(arguments)
    if (refusal := _refusal(chosen)) is not None:
        print(refusal, file=sys.stderr)
        return 1
    with Display() as display, locked(chosen.folder / _LOCK, wait=False) as ours:
        if not ours:
            display.say(f"another demo is running in {chosen.folder}; choose another --folder")
            return 1
        interrupted_by()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _terminated)
        try:
            return _report(Demo(chosen, display).run(), chosen, display)
        except KeyboardInterrupt:
            display.say("stopped; nothing that was started is running any more")
            return 130
        except (ChildFailed, LocalError, Stuck) as error:
            display.say(f"the demo failed: {error}")
            return 1


if __name__ == "__main__":
    sys.exit(main())
