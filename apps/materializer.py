"""Turn output topics into read-store tables, with Spark Structured Streaming.

    python -m apps.materializer --topology apps.flights.topology:topology --checkpoint DIR
    spark-submit … apps/materializer.py --topics shop.orders,shop.carts --checkpoint DIR

A batch of records is one transaction of the read store. The checkpoint only says where to go on
reading: if it is lost, topics are read from the start, and the store ignores what it has already.
SIGTERM and Ctrl-C finish the batch in hand and end with status 0; an error ends with status 1.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import NamedTuple

from apps.kafka_options import OptionError, kafka_options, without_secrets
from apps.signals import take_signals
from stores.sink import StoreError
from stores.sinks import KINDS, needs_spark, open_sink
from stores.urls import without_password
from topology import DeclarationError, Table, Topology
from topology.names import checked_topic

log = logging.getLogger("materializer")

_REMEDIES = {
    "data source: kafka": (
        "Spark has no Kafka connector: run scripts/setup, or give spark-submit "
        "--packages org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION"
    ),
    "failOnDataLoss": (
        "Kafka no longer has records that were not read: a topic was deleted or its retention is "
        "too short. If what is left is to be read, add --kafka-option failOnDataLoss=false once; "
        "if a topic was made again, delete the checkpoint folder"
    ),
    "Connection refused": "Spark's JVM has ended; what was applied is in the store, start again",
    "TimeoutException": "Kafka did not answer: look at --broker, and at the options it needs",
    "JAVA_GATEWAY_EXITED": "Spark needs Java 17 or 21: run scripts/setup, or set JAVA_HOME",
}
"""Part of a message of Spark → what to do."""


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
    parser.add_argument(
        "--broker",
        default=os.environ.get("SEQUITUR_BROKER", "127.0.0.1:9092"),
        help="host:port of Kafka (SEQUITUR_BROKER, else %(default)s)",
    )
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
        "--kafka-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of Spark's Kafka source, such as kafka.security.protocol=SSL; may be repeated",
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
    parser.add_argument(
        "--kafka-properties",
        type=Path,
        metavar="FILE",
        help="client properties, such as sasl.jaas.config=…: secrets are not for command lines",
    )
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
            try:
                sink = sink or stack.enter_context(open_sink(url, what.tables))
                place = without_password(url)
                log.info(
                    "reading %s from %s into %s", ", ".join(what.topics), options.broker, place
                )
                materialize(spark, sink, settings, stop)
            finally:
                with suppress(*SPARK_ERRORS):
                    spark.stop()
        except SPARK_ERRORS as error:
            log.error("%s", without_secrets(_reason(error), kafka))
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


def _reason(error: Exception) -> str:
    """What Spark says, without its plans and stacks, and what to do about it if that is known."""
    text = str(error).partition("=== Streaming Query")[0].partition("JVM stacktrace")[0].strip()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("\tat "))
    for sign, remedy in _REMEDIES.items():
        if sign in text:
            return f"{text}\n{remedy}"
    return text


def count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def seconds(text: str) -> float:
    if not 0 <= (number := float(text)) <= 3600:
        raise ValueError
    return number


if __name__ == "__main__":
    sys.exit(main())
