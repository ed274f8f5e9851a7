"""`python -m bench`, which scripts/bench runs after set-up."""

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from rich.console import Console

from bench.delivery.kept import PARTS
from bench.delivery.run import DeliveryOptions
from bench.delivery.run import run as run_delivery
from bench.engine import SCENARIOS, Options, run
from bench.ordering.run import OrderingOptions
from bench.ordering.run import run as run_ordering
from bench.ordering.work import ROWS
from bench.peers.registry import PEERS
from bench.routing.run import RoutingOptions
from bench.routing.run import run as run_routing
from bench.spark.registry import SCENARIOS as SPARK_SCENARIOS
from bench.spark.run import SparkOptions
from bench.spark.run import run as run_spark
from bench.units.run import UnitsOptions
from bench.units.run import run as run_units
from sequitur.cli.signals import interrupted_by
from sequitur.local.home import HOME, ROOT, LocalError, locked


def _names(known: list[str]) -> Callable[[str], list[str]]:
    def names(text: str) -> list[str]:
        chosen = [name.strip() for name in text.split(",") if name.strip()]
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return [name for name in known if name in chosen]

    return names


def _count(text: str) -> int:
    value = int(text.replace(",", "").replace("_", ""))
    if value < 1:
        raise argparse.ArgumentTypeError("it must be at least 1")
    return value


def options(
    arguments: list[str] | None = None,
) -> Options | SparkOptions | DeliveryOptions | OrderingOptions | UnitsOptions | RoutingOptions:
    """The options of the command line. Exits with a message where they do not fit."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    engine = commands.add_parser("engine", help="Sequitur and its peers on one Kafka broker")
    add = engine.add_argument
    add("--n", type=_count, default=400_000, help="events (default %(default)s)")
    add("--repeats", type=_count, default=3, help="of everything (default %(default)s)")
    everybody, everything = ",".join(PEERS), ",".join(SCENARIOS)
    add("--peers", type=_names(list(PEERS)), default=everybody, help="default: %(default)s")
    add("--scenario", type=_names(list(SCENARIOS)), default=everything, help="default: %(default)s")
    add("--install", action="store_true", help="get the chosen peers that are not there yet")
    add("--broker", help="host:port of a broker to use; default: one of the bench's own")
    add("--rate", type=_count, help="events/s for latency; default: a tenth of the throughput")
    add("--folder", type=Path, default=HOME / "bench", help="for data, logs and kept results")
    add("--page", type=Path, default=ROOT / "docs" / "benchmarks.md", help="the page to write")
    spark = commands.add_parser("spark", help="what runs on Spark: read stores, rebuilds, live")
    add = spark.add_argument
    add("--n", type=_count, default=400_000, help="records or events (default %(default)s)")
    add("--repeats", type=_count, default=3, help="of everything (default %(default)s)")
    data_side = ",".join(SPARK_SCENARIOS)
    known = list(SPARK_SCENARIOS)
    add("--scenario", type=_names(known), default=data_side, help="default: %(default)s")
    add("--install", action="store_true", help="get what is written with besides, if missing")
    add("--broker", help="host:port of a broker to use; default: one of the bench's own")
    add("--folder", type=Path, default=HOME / "bench", help="for data, logs and kept results")
    add("--page", type=Path, default=ROOT / "docs" / "benchmarks-spark.md", help="to be written")
    delivery = commands.add_parser("delivery", help="capture, relay and inbox, on PostgreSQL")
    add = delivery.add_argument
    add("--n", type=_count, default=5_000_000, help="messages of the backlog (default %(default)s)")
    add("--rate", type=_count, default=1_000, help="transactions/s for latency (%(default)s)")
    add("--seconds", type=float, default=30, help="for captures and latency (default %(default)s)")
    add("--part", action="append", choices=PARTS, help="measure it alone; may be given again")
    add("--folder", type=Path, default=HOME / "bench", help="for data, logs and kept results")
    add("--page", type=Path, default=ROOT / "docs" / "benchmarks-delivery.md", help="to write")
    ordering = commands.add_parser(
        "ordering", help="slow handlers side by side, committed in order"
    )
    add = ordering.add_argument
    add("--n", type=_count, default=10_000, help="events of a row (default %(default)s)")
    add("--repeats", type=_count, default=3, help="of each row (default %(default)s)")
    add("--row", action="append", choices=[row.name for row in ROWS], help="measure it alone")
    add("--broker", help="host:port of a broker to use; default: one of the bench's own")
    add("--folder", type=Path, default=HOME / "bench", help="for data and logs")
    units = commands.add_parser("units", help="units of order: more consumers than partitions")
    add = units.add_argument
    add("--n", type=_count, default=20_000, help="messages of a measurement (default %(default)s)")
    add("--repeats", type=_count, default=3, help="of each measurement (default %(default)s)")
    add("--broker", help="host:port of a broker to use; default: one of the bench's own")
    add("--folder", type=Path, default=HOME / "bench", help="for data and logs")
    routing = commands.add_parser("routing", help="messages and units of work through rules")
    add = routing.add_argument
    add("--n", type=_count, default=100_000, help="messages of a measurement (default %(default)s)")
    add("--repeats", type=_count, default=3, help="of each measurement (default %(default)s)")
    add("--broker", help="host:port of a broker to use; default: one of the bench's own")
    add("--folder", type=Path, default=HOME / "bench", help="for data and logs")
    add("--page", type=Path, default=ROOT / "docs" / "benchmarks-routing.md", help="to be written")
    found = parser.parse_args(arguments)
    if found.command == "routing":
        folder, page = found.folder.absolute(), found.page.absolute()
        return RoutingOptions(found.n, found.repeats, found.broker, folder, page)
    if found.command == "units":
        return UnitsOptions(found.n, found.repeats, found.broker, found.folder.absolute())
    if found.command == "ordering":
        rows = tuple(found.row or [row.name for row in ROWS])
        return OrderingOptions(found.n, found.repeats, rows, found.broker, found.folder.absolute())
    if found.command == "spark":
        return SparkOptions(
            events=found.n,
            repeats=found.repeats,
            scenarios=found.scenario,
            install=found.install,
            broker=found.broker,
            folder=found.folder.absolute(),
            page=found.page.absolute(),
        )
    if found.command == "delivery":
        folder, page = found.folder.absolute(), found.page.absolute()
        parts = tuple(found.part or PARTS)
        return DeliveryOptions(found.n, found.rate, found.seconds, folder, page, parts=parts)
    return Options(
        events=found.n,
        repeats=found.repeats,
        peers=found.peers,
        scenarios=found.scenario,
        install=found.install,
        broker=found.broker,
        rate=found.rate,
        folder=found.folder.absolute(),
        page=found.page.absolute(),
    )


def _terminated(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def main(arguments: list[str] | None = None) -> int:
    """Run the bench; return the exit status: 0 only where every output was right."""
    wanted = options(arguments)
    interrupted_by()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    with locked(wanted.folder / "lock", wait=False) as ours:
        if not ours:
            print(f"another bench is running in {wanted.folder}", file=sys.stderr)
            return 1
        try:
            if isinstance(wanted, SparkOptions):
                return run_spark(wanted, console)
            if isinstance(wanted, UnitsOptions):
                return run_units(wanted, console)
            if isinstance(wanted, RoutingOptions):
                return run_routing(wanted, console)
            if isinstance(wanted, OrderingOptions):
                return run_ordering(wanted, console)
            if isinstance(wanted, DeliveryOptions):
                return run_delivery(wanted, console)
            return run(wanted, console)
        except LocalError as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("stopped; nothing that was started is running any more", file=sys.stderr)
            return 130


if __name__ == "__main__":
    sys.exit(main())
