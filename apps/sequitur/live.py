"""`sequitur live`: run a topology on Spark, a streaming query in place of Faust workers."""

import logging
import os
import sys
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
    Reads,
    broker_option,
    checkpoint,
    kafka_options,
    read_store_option,
    topology_option,
)
from sequitur.cli.outcome import outcome_of
from sequitur.cli.signals import take_signals
from sequitur.cli.statuses import BAD_NEWS, CANNOT, DONE
from sequitur.kafka.client import client_settings
from sequitur.kafka.options import OptionError
from sequitur.materialize.open_sink import dead_of
from sequitur.spark.spark_submit import stopped_in_order, submitted
from stores.db.urls import without_password
from stores.sinks import Sink, open_sink
from stores.sinks.by_url import needs_spark
from topology.declaration.topology import Topology
from topology.model.counted import counted

LOOK_SECONDS = 0.2

log = logging.getLogger("live")


@click.command("live", cls=Command)
@topology_option(required=True)
@broker_option
@click.option(
    "--checkpoint",
    type=Reads("DIR", checkpoint),
    required=True,
    help="The state of all streams; keep it.",
)
@read_store_option("Where row changes go: its URL, or @FILE.")
@click.option("--topics/--no-topics", default=None, help="Write output topics; without a store.")
@click.option(
    "--max-records-per-trigger",
    type=COUNT,
    metavar="N",
    default=50_000,
    show_default=True,
    help="Messages of a batch.",
)
@click.option(
    "--trigger-interval",
    type=DURATION,
    default="500ms",
    show_default=True,
    help="Between batches.",
)
@click.option("--group", help="Of the committed offsets (TOPOLOGY.spark).")
@kafka_options
def command(**given: Any) -> int:
    """Run a topology on Spark in place of Faust workers, until it is stopped.

    If the checkpoint is lost, what the topics still have is read again, and outputs
    come again with the same view, stream and sequence. Status 1: the read store
    has put records aside.
    """
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what ends it is told by itself
    return outcome_of(_run, SimpleNamespace(**given), log)


def _run(options: SimpleNamespace, kafka: Mapping[str, str]) -> int:
    stop = Event()
    take_signals(stop, log, "finishing the batch in hand")
    if options.store is None and options.topics is False:
        raise OptionError("--no-topics without --read-store would leave row changes nowhere to go")
    if options.store is not None and needs_spark(options.store):
        raise OptionError(
            f"--read-store {without_password(options.store)}: row changes go there by way of the "
            "output topics and the materializer; leave it out, and start the materializer too"
        )
    client = client_settings(kafka)
    sys.path.insert(0, "")
    if not submitted():
        # Spark's Python workers import the topology as this process does.
        os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    # Spark takes seconds to import and to start: what is wrong with the rest is said before.
    from topology.spark.reference import refer
    from topology.spark.supported import check_supported

    topology = refer(options.topology).load()
    check_supported(topology)
    with ExitStack() as stack:
        sink: Sink | None = None
        if options.store is not None:
            tables = [table for view in topology.views.values() for table in view.tables]
            sink = stack.enter_context(open_sink(options.store, tables))
        from aiokafka.errors import KafkaError

        from sequitur.spark.errors import told
        from sequitur.spark.exceptions import SPARK_ERRORS
        from sequitur.spark.session import spark_session
        from topology.spark.live import start
        from topology.spark.settings import CannotRun, Settings

        try:
            settings = Settings(
                broker=options.broker,
                checkpoint=options.checkpoint,
                max_records=options.max_records_per_trigger,
                interval=options.trigger_interval,
                topics=options.topics if options.topics is not None else sink is None,
                group=options.group,
                kafka=kafka,
                client=client,
            )
            spark = spark_session(topology.name)
            take_signals(stop, log, "finishing the batch in hand")  # Spark has set its own
            log.info("running topology %s from %s", topology.name, options.broker)
            with stopped_in_order(spark, stop):
                live = start(options.topology, settings, spark, sink)
                while not stop.wait(LOOK_SECONDS) and live.query.isActive:
                    pass
                if stop.is_set():
                    # Spark would report the end of the query, and a batch that is not begun, as
                    # errors.
                    spark.sparkContext.setLogLevel("OFF")
                live.stop()
        except (CannotRun, KafkaError, *SPARK_ERRORS) as error:
            if stop.is_set() and not isinstance(error, CannotRun):
                log.info("Spark did not stop in order; a batch in hand is run again next time")
            else:
                log.error("%s", told(error, kafka))
                return CANNOT
        return _ended(sink, topology)


def _ended(sink: Sink | None, topology: Topology) -> int:
    """Say what is left of it; the exit status."""
    outputs = {view.output for view in topology.views.values()}
    dead = 0 if sink is None else dead_of(sink, outputs)
    if dead:
        log.warning(
            "stopped; %s could not be applied: see the table _dead", counted(dead, "record")
        )
        return BAD_NEWS
    log.info("stopped")
    return DONE
