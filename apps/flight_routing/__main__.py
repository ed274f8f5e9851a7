"""`scripts/demo routing`: the departures of a year through a router, harmed on the way.

A router looks inside each of the 328,521 departures out of New York of 2013 and publishes it to
up to five destinations: Kafka as JSON and as CSV, RabbitMQ as XML and as JSON, and a file. Pandas
works out again what each destination must have. Status 1: they differ. Ctrl-C stops all that was
started.
"""

import argparse
import signal
import sys
from functools import partial
from pathlib import Path

from flight_routing.run import RoutingDemo
from sequitur.cli.signals import note_signals
from sequitur.cli.statuses import BAD_NEWS, CANNOT, DONE
from sequitur.demo.processes import ChildFailed
from sequitur.local.home import HOME, LocalError, locked

say = partial(print, flush=True)


def main() -> int:
    """Run the demo; return the exit status: 0 only where every destination is right."""
    parser = argparse.ArgumentParser(prog="scripts/demo routing", description=__doc__)
    parser.add_argument("--events", type=int, help="departures to send (all of the year)")
    parser.add_argument("--folder", type=Path, default=HOME / "demo-routing", help="logs and data")
    given = parser.parse_args()
    folder = given.folder.absolute()
    if folder.exists() and any(folder.iterdir()) and not (folder / "router.lock").exists():
        say(f"{folder} is no folder of an earlier demo; choose a new or an empty one")
        return CANNOT
    with locked(folder / "router.lock", wait=False) as ours:
        if not ours:
            say(f"another demo is running in {folder}; choose another --folder")
            return CANNOT
        note_signals(signal.SIGTERM, signal.SIGHUP)
        try:
            verdict = RoutingDemo(folder, given.events, say).run()
        except KeyboardInterrupt as stopped:
            say("stopped; nothing that was started is running any more")
            return 128 + int(stopped.args[0])
        except (ChildFailed, LocalError, RuntimeError) as error:
            say(f"the demo failed: {error}")
            return CANNOT
    for line in verdict.lines:
        say(line)
    say(f"destinations verified: {verdict.differences} differences")
    return BAD_NEWS if verdict.differences else DONE


if __name__ == "__main__":
    sys.exit(main())
