"""`scripts/drill`: Newark, Kennedy and LaGuardia, a broker each; Kennedy is lost, and returns.

Each site publishes the movements of the flights that leave from its airport, and forwards them to
the others. At each a router sends on what comes, and a view puts those of each aircraft in order.
The last line is the verdict: nothing missing, nothing doubled, the loss shown as gaps in the views,
which are closed, and with --copies 0, before the return, exactly what the lag had said. Status 1:
it is another one. Ctrl-C stops all that was started.
"""

import argparse
import asyncio
import logging
import shutil
import signal
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from drill.processes import DrillFailed
from drill.run import Round
from drill.traffic import AIRPORTS
from sequitur.cli.signals import interrupted_by
from sequitur.cli.statuses import BAD_NEWS, CANNOT, DONE
from sequitur.demo.processes import ChildFailed
from sequitur.local.broker import Broker
from sequitur.local.home import HOME, LocalError, locked
from stores.sites.errors import AWAY

say = partial(print, flush=True)


def main() -> int:
    """Run the rounds; returns 0 only where nothing is wrong in any of them."""
    parser = argparse.ArgumentParser(prog="scripts/drill", description=__doc__)
    add = parser.add_argument
    add("--events", type=int, default=20_000, help="movements (%(default)s)")
    add("--rate", type=float, default=1_000, help="movements a second, at all sites (%(default)g)")
    add("--seed", type=int, default=1, help="of the moments; each round adds 1 (%(default)s)")
    add("--copies", type=int, choices=(0, 1), default=1, help="0: own broker alone (%(default)s)")
    add("--rounds", type=int, default=1, help="how often (%(default)s)")
    add("--folder", type=Path, default=HOME / "drill", help="logs and records")
    given = parser.parse_args()
    folder = given.folder.absolute()
    if folder.exists() and any(folder.iterdir()) and not (folder / "drill.lock").exists():
        say(f"{folder} is no folder of an earlier drill; choose a new or an empty one")
        return CANNOT
    with locked(folder / "drill.lock", wait=False) as ours:
        if not ours:
            say(f"another drill is running in {folder}; choose another --folder")
            return CANNOT
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # brokers are killed here
        interrupted_by(signal.SIGTERM, signal.SIGHUP)
        try:
            return run(given, folder)
        except KeyboardInterrupt as stopped:
            say("stopped; nothing that was started is running any more")
            return 128 + int((stopped.args or (signal.SIGINT,))[0])
        except (ChildFailed, DrillFailed, LocalError, *AWAY) as error:
            say(f"the drill failed: {error!r}")
            return CANNOT


def run(given: argparse.Namespace, folder: Path) -> int:
    """Start the brokers, and run the rounds over them."""
    wrong: list[str] = []
    with ExitStack() as stack:
        brokers = {}
        for name in AIRPORTS:
            shutil.rmtree(folder / name, ignore_errors=True)
            say(f"starting the broker of {name} …")
            brokers[name] = Broker(folder / name, heap="256m")
            stack.callback(brokers[name].stop)
            brokers[name].start()
        for n in range(1, given.rounds + 1):
            place = folder / f"round-{n}"
            shutil.rmtree(place, ignore_errors=True)
            settings = (given.seed + n - 1, given.copies, given.events, given.rate)
            found = asyncio.run(Round(place, brokers, n, *settings, say).run())
            for each in found:
                say(f"  WRONG: {each}")
            wrong += found
    rounds = f"{given.rounds} round{'s' * (given.rounds > 1)}, copies {given.copies}"
    if wrong:
        say(f"{rounds}: {len(wrong)} things are wrong; the first: {wrong[0]}")
        return BAD_NEWS
    exactly = "" if given.copies else "; before the return exactly what the lag had said"
    say(f"{rounds}: nothing missing, nothing doubled, each gap shown and closed{exactly}")
    return DONE


if __name__ == "__main__":
    sys.exit(main())
