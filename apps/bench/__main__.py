"""`python -m bench`, which scripts/bench runs after set-up."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from bench import console as pages
from bench import engine, machine, replay
from bench.delivery import run as delivery
from bench.delivery.kept import PARTS
from bench.options import Options
from bench.ordering import run as ordering
from bench.ordering.work import ROWS
from bench.peers.registry import PEERS
from bench.routing import run as routing
from bench.spark import run as spark
from bench.spark.registry import SCENARIOS as SPARK_SCENARIOS
from bench.units import run as units
from bench.verbs import run as verbs
from bench.verbs.scenarios import SCENARIOS as VERB_SCENARIOS
from sequitur.cli.signals import interrupted_by
from sequitur.local.home import HOME, ROOT, LocalError, locked

BENCHES: dict[str, tuple[Callable[[Options, Console], int], str, int, str, str | None]] = {
    "engine": (engine.run, "Sequitur and its peers on one Kafka broker", 400_000, "events",
               "benchmarks.md"),
    "spark": (spark.run, "what runs on Spark: read stores, rebuilds, live", 400_000,
              "records or events", "benchmarks-spark.md"),
    "delivery": (delivery.run, "capture, relay and inbox, on PostgreSQL", 5_000_000,
                 "messages of the backlog", "benchmarks-delivery.md"),
    "ordering": (ordering.run, "slow handlers side by side, committed in order", 10_000,
                 "events of a row", None),
    "units": (units.run, "units of order: more consumers than partitions", 20_000,
              "messages of a measurement", None),
    "routing": (routing.run, "messages and units of work through rules", 100_000,
                "messages of a measurement", "benchmarks-routing.md"),
    "replay": (replay.run, "the replay log: ingest, counts and pages", 200_000,
               "messages of the log", "benchmarks-replay.md"),
    "console": (pages.run, "the console's pages with many streams, in CPU time", 1_000_000,
                "streams", None),
    "verbs": (verbs.run, "windows and lookups out of order, beside Kafka Streams", 655_867,
              "movements", "benchmarks-verbs.md"),
}  # fmt: skip
"""Name → what runs it, what it is about, how many of what, and the page that it writes."""

SCENARIOS: dict[str, Iterable[str]] = {
    "engine": engine.SCENARIOS,
    "spark": SPARK_SCENARIOS,
    "verbs": VERB_SCENARIOS,
}
"""Of those that have some."""


def _names(known: Iterable[str]) -> dict[str, Any]:
    """How a list of some of these names is an option; all of them by default."""

    def names(text: str) -> list[str]:
        chosen = [name.strip() for name in text.split(",") if name.strip()]
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return [name for name in known if name in chosen]

    return {"type": names, "default": ",".join(known), "help": "default: %(default)s"}


def _count(text: str) -> int:
    value = int(text.replace(",", "").replace("_", ""))
    if value < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return value


def _path(text: str) -> Path:
    return Path(text).absolute()


def options(arguments: list[str] | None = None) -> Options:
    """The options of the command line. Exits with a message where they do not fit."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, about, count, things, page) in BENCHES.items():
        add = commands.add_parser(name, help=about).add_argument
        how_many = f"{things} (default %(default)s)"
        add("--n", dest="events", type=_count, default=count, help=how_many)
        kept = name in SCENARIOS
        text = "for data and logs" if kept else "for data, logs and kept results"
        add("--folder", type=_path, default=HOME / "bench", help=text)
        if page is not None:
            text = "the page to write" + "; all samples are kept beside it, as .json" * kept
            add("--page", type=_path, default=ROOT / "docs" / page, help=text)
        add("--repeats", type=_count, default=3, help="of everything (default %(default)s)")
        if name != "delivery":
            add("--broker", help="host:port of a broker to use; default: one of the bench's own")
        if known := SCENARIOS.get(name):
            add("--scenario", dest="scenarios", **_names(known))
            add("--install", action="store_true", help="get what is measured besides, if missing")
        if name == "engine":
            add("--peers", **_names(PEERS))
            text = "events/s for latency; default: a tenth of the throughput"
            add("--rate", type=_count, help=text)
        if name == "delivery":
            text = "transactions/s for latency (%(default)s)"
            add("--rate", type=_count, default=1_000, help=text)
            text = "for captures and latency (default %(default)s)"
            add("--seconds", type=float, default=30, help=text)
            add("--part", dest="parts", action="append", choices=PARTS)
        if name == "ordering":
            add("--row", dest="rows", action="append", choices=[row.name for row in ROWS])
    return Options(**vars(parser.parse_args(arguments)))


def _terminated(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(arguments: list[str] | None = None) -> int:
    """Run the bench; return the exit status: 0 only where every output was right."""
    wanted = options(arguments)
    if wanted.page.is_relative_to(ROOT / "docs") and machine.changed():
        print(
            "the checkout has changes that are in no commit, which a page of figures cannot name: "
            "commit them, or write the page elsewhere with --page",
            file=sys.stderr,
        )
        return 1
    interrupted_by()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    with locked(wanted.folder / "lock", wait=False) as ours:
        if not ours:
            print(f"another bench is running in {wanted.folder}", file=sys.stderr)
            return 1
        try:
            return BENCHES[wanted.command][0](wanted, console)
        except LocalError as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("stopped; nothing that was started is running any more", file=sys.stderr)
            return 130


if __name__ == "__main__":
    sys.exit(main())
