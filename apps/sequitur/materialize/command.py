"""`sequitur materialize`: turn output topics into read-store tables, with Spark."""

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from threading import Event
from types import SimpleNamespace
from typing import Any

import click

from sequitur.cli.group import Command
from sequitur.cli.options import (
    COUNT,
    DURATION,
    FILE,
    Reads,
    broker_option,
    checkpoint,
    kafka_options,
    metrics_option,
    read_store_option,
    topology_option,
)
from sequitur.cli.outcome import outcome_of
from sequitur.cli.signals import take_signals
from sequitur.cli.statuses import BAD_NEWS, CANNOT, DONE
from sequitur.materialize.open_sink import OpenSink
from sequitur.materialize.outputs import Deployed, named
from sequitur.spark.spark_submit import stopped_in_order
from stores.db.urls import said, without_password
from stores.sinks import StoreError
from stores.sinks.by_url import needs_spark

log = logging.getLogger("materializer")


@click.command("materialize", cls=Command)
@topology_option(help="Take its views' output topics; or --topics.")
@click.option("--topics", metavar="A,B", help="Output topics; their tables are inferred.")
@broker_option
@read_store_option(required=True)
@click.option(
    "--checkpoint",
    type=Reads("DIR", checkpoint),
    required=True,
    help="Where Spark notes how far it read.",
)
@click.option(
    "--max-rows-per-trigger",
    type=COUNT,
    metavar="N",
    default=100_000,
    show_default=True,
    help="Records of a batch.",
)
@click.option(
    "--trigger-interval",
    type=DURATION,
    default="100ms",
    show_default=True,
    help="Between batches.",
)
@click.option(
    "--executors-from",
    type=COUNT,
    metavar="N",
    help="Records of a batch that Spark's executors write (PostgreSQL, Delta Lake). "
    "[default: 20000 on a cluster, else none]",
)
@click.option("--dead-topic", metavar="NAME", help="For what cannot be applied; '' for none.")
@click.option("--status", type=FILE, metavar="FILE", help="JSON that says how far it is.")
@metrics_option
@kafka_options
def command(**given: Any) -> int:
    """Turn output topics into read-store tables, until it is stopped.

    A batch is one transaction of the store. If the checkpoint is lost, topics are
    read from the start, and the store ignores what it has. Status 1: some records
    could not be applied.
    """
    if (given["topology"] is None) == (given["topics"] is None):
        raise click.UsageError("give --topology or --topics, one of the two")
    return outcome_of(_run, SimpleNamespace(**given), log)


def _run(options: SimpleNamespace, kafka: Mapping[str, str]) -> int:
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
        from sequitur.materialize.pages import MaterializerPages
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
            options.executors_from,
        )
        report = Report(options.broker, outputs.topics, options.status)
        stack.enter_context(MaterializerPages(report).in_thread(options.metrics))
        problem: str | None = "it ended with an error, which is in its log"
        try:
            spark = spark_session("materializer", delta=needs_spark(options.store))
            take_signals(stop, log, "finishing the batch in hand")  # Spark has set its own
            with stopped_in_order(spark, stop):
                store.open(outputs)
                place, topics = without_password(options.store), ", ".join(outputs.topics)
                log.info("reading %s from %s into %s", topics, options.broker, place)
                materialize_on(spark, store, settings, stop, report, deployed)
            problem = None
        except SPARK_ERRORS as error:
            problem = said(told(error, kafka), options.store)
            log.error("%s", told(error, kafka))
            return CANNOT
        except KeyboardInterrupt:
            problem = None
            raise
        except StoreError as error:
            problem = said(error, options.store)
            raise
        finally:
            report.end(problem)
    left = report.left()
    log.log(logging.WARNING if left else logging.INFO, "stopped%s", f"; {left}" if left else "")
    return BAD_NEWS if left else DONE
