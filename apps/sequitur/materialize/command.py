"""Turn output topics into read-store tables, with Spark Structured Streaming.

    python -m sequitur.materialize.command --topology shop:shop --checkpoint DIR
    spark-submit … apps/sequitur/materialize/command.py --topology shop:shop --checkpoint DIR

A batch of records is one transaction of the read store. The checkpoint only says where to go on
reading: if it is lost, topics are read from the start, and the store ignores what it has already.
SIGTERM and Ctrl-C finish the batch in hand and end with status 0, or 1 if records could not be
applied or there is a problem; an error, one line of the log, ends with status 2.
"""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Event

from sequitur.cli.arguments import (
    URL_HELP,
    Parser,
    add_broker,
    add_kafka,
    checkpoint,
    count,
    seconds,
    url,
)
from sequitur.cli.outcome import BAD_NEWS, CANNOT, DONE, outcome_of
from sequitur.cli.signals import take_signals
from sequitur.materialize.open_sink import OpenSink
from sequitur.materialize.outputs import Deployed, named
from sequitur.spark.submitted import stopped_in_order
from stores.db.urls import without_password
from stores.sinks import KINDS, needs_spark

log = logging.getLogger("materializer")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM, Ctrl-C or an error; return the exit status."""
    return outcome_of(_run, _parser().parse_args(arguments), log)


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
        "--checkpoint",
        type=checkpoint,
        required=True,
        metavar="DIR",
        help="where Spark notes how far it read",
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
    with ExitStack() as stack:
        deployed: Deployed | None = None
        if options.topology is None:
            outputs = named(options.topics, options.dead_topic)
        else:
            deployed = stack.enter_context(Deployed(options.topology, options.dead_topic))
            outputs = deployed.outputs
        # Spark takes seconds to import and to start: what is wrong with the rest is said before.
        store = OpenSink(options.store)
        stack.callback(store.close)
        if not needs_spark(options.store):
            store.open(outputs)
        from sequitur.materialize.query import Settings
        from sequitur.materialize.redeploy import materialize_on
        from sequitur.materialize.report import Report
        from sequitur.spark.errors import told
        from sequitur.spark.exceptions import SPARK_ERRORS
        from sequitur.spark.session import spark_session

        settings = Settings(
            options.broker,
            outputs.topics,
            options.checkpoint,
            options.max_rows_per_trigger,
            options.trigger_interval,
            kafka,
            outputs.dead_topic,
            options.status,
        )
        report = Report(options.broker, outputs.topics, options.status)
        try:
            spark = spark_session("materializer", delta=needs_spark(options.store))
            take_signals(stop, log, "finishing the batch in hand")  # Spark has set its own
            with stopped_in_order(spark, stop):
                store.open(outputs)
                place, topics = without_password(options.store), ", ".join(outputs.topics)
                log.info("reading %s from %s into %s", topics, options.broker, place)
                materialize_on(spark, store, settings, stop, report, deployed)
        except SPARK_ERRORS as error:
            log.error("%s", told(error, kafka))
            return CANNOT
    left = report.left()
    log.log(logging.WARNING if left else logging.INFO, "stopped%s", f"; {left}" if left else "")
    return BAD_NEWS if left else DONE


if __name__ == "__main__":
    sys.exit(main())
