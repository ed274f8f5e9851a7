"""Turn output topics into read-store tables, with Spark Structured Streaming.

    python -m apps.materializer --topology apps.flights.topology:topology --checkpoint DIR
    spark-submit … apps/materializer.py --topics shop.orders,shop.carts --checkpoint DIR

A batch of records is one transaction of the read store. The checkpoint only says where to go on
reading: if it is lost, topics are read from the start, and the store ignores what it has already.
SIGTERM and Ctrl-C finish the batch in hand and end with status 0; an error ends with status 1.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import NamedTuple

from apps.arguments import add_broker, add_kafka, count, seconds
from apps.kafka_options import OptionError, kafka_options
from apps.signals import take_signals
from apps.submitted import stopped_in_order
from stores.sink import StoreError
from stores.sinks import KINDS, needs_spark, open_sink
from stores.urls import without_password
from topology import DeclarationError, Table, Topology
from topology.names import checked_topic

log = logging.getLogger("materializer")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, Ctrl-C or an error; return the exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level="INFO")
    try:
        return _run(options)
    except KeyboardInterrupt:  # while Spark starts, the signal is Spark's
        return 0
    except (StoreError, OptionError, DeclarationError) as error:
        log.error("%s", error)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("materializer", description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topology", metavar="MODULE:NAME", help="take its views' output topics")
    what.add_argument("--topics", metavar="A,B", help="output topics, their tables are inferred")
    add_broker(parser)
    parser.add_argument(
        "--store",
        default="sqlite:///read.db",
        metavar="URL",
        help=f"the read store (%(default)s): {KINDS}",
    )
    parser.add_argument(
        "--checkpoint", required=True, metavar="DIR", help="where Spark notes how far it read"
    )
    parser.add_argument(
        "--max-rows-per-trigger",
        type=count,
        default=100_000,
        metavar="N",
        help="records of one batch, which are in memory together (%(default)s)",
    )
    parser.add_argument(
        "--trigger-interval",
        type=seconds,
        default=0.1,
        metavar="SECONDS",
        help="between looks for records; 0 costs a quarter of a core when idle (%(default)s)",
    )
    parser.add_argument(
        "--dead-topic",
        metavar="NAME",
        help="for records that cannot be applied, besides the table _dead (with --topology: "
        "<topology>.dead-rows; '' for none)",
    )
    parser.add_argument(
        "--status",
        type=Path,
        metavar="FILE",
        help="a JSON file that says every second how far it is",
    )
    add_kafka(parser)
    return parser


def _run(options: argparse.Namespace) -> int:
    stop = Event()
    take_signals(stop, log, "finishing the batch in hand")
    kafka = kafka_options(options.kafka_option, options.kafka_properties)
    what = _what(options)
    url = options.store
    with ExitStack() as stack:
        # Spark takes seconds to import and to start: what is wrong with the rest is said before.
        sink = None if needs_spark(url) else stack.enter_context(open_sink(url, what.tables))
        from apps.materializing import Settings, materialize
        from apps.spark_errors import told
        from apps.spark_session import SPARK_ERRORS, spark_session

        settings = Settings(
            options.broker,
            what.topics,
            options.checkpoint,
            options.max_rows_per_trigger,
            options.trigger_interval,
            kafka,
            what.dead_topic,
            options.status,
        )
        try:
            spark = spark_session("materializer", delta=needs_spark(url))
            take_signals(stop, log, "finishing the batch in hand")  # Spark has set its own
            with stopped_in_order(spark, stop):
                sink = sink or stack.enter_context(open_sink(url, what.tables))
                place = without_password(url)
                log.info(
                    "reading %s from %s into %s", ", ".join(what.topics), options.broker, place
                )
                materialize(spark, sink, settings, stop)
        except SPARK_ERRORS as error:
            log.error("%s", told(error, kafka))
            return 1
    log.info("stopped")
    return 0


class What(NamedTuple):
    """Output topics, their declared tables, and where bad records go."""

    topics: list[str]
    tables: list[Table]
    dead_topic: str | None


def _what(options: argparse.Namespace) -> What:
    dead = checked_topic(options.dead_topic) if options.dead_topic else None
    if options.topology is None:
        return What([checked_topic(name.strip()) for name in options.topics.split(",")], [], dead)
    topology = load_topology(options.topology)
    views = topology.views.values()
    if not views:
        raise OptionError(f"topology {options.topology!r} has no views, so no output topics")
    if options.dead_topic is None:
        dead = f"{topology.name}.dead-rows"
    tables = [table for view in views for table in view.tables]
    return What([view.output for view in views], tables, dead)


def load_topology(place: str) -> Topology:
    """The topology at `MODULE:NAME`, `:topology` if there is no name. Raises OptionError.

    Where NAME is a module of the package MODULE, the topology is that of the same name in it.
    """
    module, _, name = place.partition(":")
    name = name or "topology"
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name, None)
        if found is None or isinstance(found, ModuleType):
            found = getattr(import_module(f"{module}.{name}"), name, None)
    except (ImportError, ValueError) as error:
        raise OptionError(f"topology {place!r}: {error}; write MODULE:NAME") from error
    if not isinstance(found, Topology):
        raise OptionError(f"topology {place!r}: there is no Topology of that name")
    return found


if __name__ == "__main__":
    sys.exit(main())
