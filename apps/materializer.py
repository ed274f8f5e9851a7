"""Turn output topics into read-store tables, with Spark Structured Streaming.

    python -m apps.materializer --topology apps.flights.topology:topology --checkpoint DIR
    spark-submit … apps/materializer.py --topics shop.orders,shop.carts --checkpoint DIR

A batch of records is one transaction of the read store. The checkpoint only says where to go on
reading: if it is lost, topics are read from the start, and the store ignores what it has already.
SIGTERM and Ctrl-C finish the batch in hand and end with status 0; an error, one line of the log,
ends with status 2.
"""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import NamedTuple

from apps.arguments import URL_HELP, Parser, add_broker, add_kafka, count, seconds, url
from apps.kafka_options import OptionError, kafka_options
from apps.outcome import CANNOT, DONE, MISTAKES, cannot, log_to_stderr
from apps.signals import take_signals
from apps.submitted import stopped_in_order
from stores.sinks import KINDS, needs_spark, open_sink
from stores.urls import without_password
from topology import Table, Topology
from topology.dotted import find
from topology.names import checked_topic

log = logging.getLogger("materializer")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, Ctrl-C or an error; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        kafka = kafka_options(options.kafka_option, options.kafka_properties)
        log_to_stderr([options.store], kafka)
        return _run(options, kafka)
    except KeyboardInterrupt:  # while Spark starts, the signal is Spark's
        return DONE
    except MISTAKES as error:
        log_to_stderr([options.store])
        return cannot(error, log, options.store)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("materializer", description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--topology", metavar="MODULE:NAME", help="take its views' output topics")
    what.add_argument("--topics", metavar="A,B", help="output topics, their tables are inferred")
    add_broker(parser)
    parser.add_argument(
        "--store",
        type=url,
        default="sqlite:///read.db",
        metavar="URL",
        help=f"the read store (%(default)s): {KINDS}; {URL_HELP}",
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


def _run(options: argparse.Namespace, kafka: Mapping[str, str]) -> int:
    stop = Event()
    take_signals(stop, log, "finishing the batch in hand")
    what = _what(options)
    with ExitStack() as stack:
        # Spark takes seconds to import and to start: what is wrong with the rest is said before.
        sink = (
            None
            if needs_spark(options.store)
            else stack.enter_context(open_sink(options.store, what.tables))
        )
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
            spark = spark_session("materializer", delta=needs_spark(options.store))
            take_signals(stop, log, "finishing the batch in hand")  # Spark has set its own
            with stopped_in_order(spark, stop):
                sink = sink or stack.enter_context(open_sink(options.store, what.tables))
                place = without_password(options.store)
                log.info(
                    "reading %s from %s into %s", ", ".join(what.topics), options.broker, place
                )
                materialize(spark, sink, settings, stop)
        except SPARK_ERRORS as error:
            log.error("%s", told(error, kafka))
            return CANNOT
    log.info("stopped")
    return DONE


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
    """The topology at `MODULE:NAME`, `:topology` if there is no name. Raises DeclarationError.

    Where NAME is a module of the package MODULE, the topology is that of the same name in it.
    """
    sys.path.insert(0, "")
    found: Topology = find("topology", place, "topology", lambda one: isinstance(one, Topology))
    return found


if __name__ == "__main__":
    sys.exit(main())
