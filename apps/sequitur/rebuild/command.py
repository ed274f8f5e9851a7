"""`sequitur rebuild`: views from history, beside the live tables, which they then replace."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import click

from sequitur.cli import options as opts
from sequitur.cli.group import Group
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.signals import check_interrupted, interrupted_by, take_signals
from sequitur.cli.statuses import BAD_NEWS, CANNOT, DONE, STOPPED
from sequitur.kafka.options import OptionError, kafka_options, without_secrets
from sequitur.materialize.open_sink import opened
from sequitur.spark.spark_submit import stopped_in_order
from stores.db.urls import without_password
from stores.sinks.shadows import OLD
from topology.model.closest import closest
from topology.model.counted import counted
from topology.view_rebuild import CannotRebuild

if TYPE_CHECKING:
    from sequitur.rebuild.job import Job

log = logging.getLogger("rebuild")

_store = opts.read_store_option(required=True)


@click.group("rebuild", cls=Group)
def command() -> None:
    """Rebuild views from history, and put them in the live tables' place.

    \b
    sequitur rebuild run --app shop --view order_board --read-store sqlite:///s.db
    sequitur rebuild drop --read-store sqlite:///s.db

    Workers and materializers run on meanwhile. A rebuild that was stopped or killed
    goes on when the same command is given again. Status 1: the history is not
    enough, records could not be applied, a stream was not found, or the tables differ.
    """


@command.command()
@click.option("--app", required=True, metavar="MODULE", help="Of the worker, as in faust -A.")
@click.option("--view", multiple=True, required=True, help="Repeatable: all in one pass.")
@_store
@click.option("--work", type=opts.FILE, metavar="DIR", default=Path("rebuild"), show_default=True)
@click.option(
    "--history",
    multiple=True,
    metavar="WHAT",
    help="by-stream, sources, log:FILE, parquet:DIR, json:DIR.",
)
@click.option("--stream", multiple=True, help="Only this stream; repeatable.")
@opts.window("Only streams with a message from it on.", "And with that message before it.")
@click.option(
    "--switch",
    type=click.Choice(("yes", "same", "no")),
    default="yes",
    show_default=True,
    help="same: if equal.",
)
@click.option("--incomplete", is_flag=True, help="Even if the history lacks events.")
@click.option("--emit", is_flag=True, help="Send what handlers emit once more.")
@click.option("--hashes", is_flag=True, help="Compare streams with the output topic.")
@click.option("--fresh", is_flag=True, help="Do not go on with what was begun.")
@click.option("--slices", type=int, default=0, metavar="N", help="Tasks (8 a core).")
@click.option("--cores", type=int, metavar="N", help="Of this machine (all).")
@opts.kafka_options
def run(**given: Any) -> int:
    """Rebuild views, and put them in the live tables' place."""
    return _outcome(_run, **given)


@command.command()
@_store
@click.option("--shadow", default=OLD, show_default=True, help="Which of them.")
def drop(**given: Any) -> int:
    """Delete the tables that were replaced."""
    return _outcome(_drop, **given)


@command.command()
@_store
def shadows(**given: Any) -> int:
    """List the sets of shadow tables beside the live ones."""
    return _outcome(_shadows, **given)


@command.command()
@opts.broker_option
@click.option("--topic", required=True, multiple=True, help="Repeatable.")
@click.option("--to", required=True, metavar="FOLDER", help="One that is not there yet.")
@click.option(
    "--format", type=click.Choice(("parquet", "json")), default="parquet", show_default=True
)
@opts.kafka_options
def export(**given: Any) -> int:
    """Write a topic's messages to files."""
    return _outcome(_export, **given)


def _outcome(work: Callable[[SimpleNamespace], int], /, **given: Any) -> int:
    place = given.get("store")
    with suppress(OptionError):
        kafka = kafka_options(given.get("kafka_option", ()), given.get("kafka_properties"))
        log_to_stderr([place], kafka)
    log_to_stderr([place])
    for loud, level in (("aiokafka", "CRITICAL"), ("faust", "WARNING"), ("kafka", "WARNING")):
        logging.getLogger(loud).setLevel(level)  # what ends it is told by itself
    interrupted_by()
    try:
        return work(SimpleNamespace(**given))
    except KeyboardInterrupt:
        return STOPPED
    except CannotRebuild as error:
        log.error("%s", error)
        return BAD_NEWS
    except MISTAKES as error:
        return cannot(error, log, place)


def _run(options: SimpleNamespace) -> int:
    from sequitur.rebuild.build import BY_STREAM, Stopped, check_history
    from sequitur.rebuild.job import Job
    from sequitur.rebuild.plan import Request, WorkFolder, code_of
    from sequitur.rebuild.worker_app import load_app
    from sequitur.spark.exceptions import SPARK_ERRORS
    from topology.faust.worker.snapshot import NoSnapshot

    stop = Event()
    take_signals(stop, log, "stopping")
    check_interrupted()  # the imports take seconds, and may have dropped it
    kafka = kafka_options(options.kafka_option, options.kafka_properties)
    app = load_app(options.app)
    topology = app.engine.topology
    names = list(dict.fromkeys(options.view))
    for name in names:
        if name not in topology.views:
            known = ", ".join(map(repr, topology.views)) or "none"
            close = closest(name, topology.views)
            raise OptionError(f"view {name!r} is not in {topology.name!r}{close}; it has {known}")
    views = [topology.views[name] for name in names]
    request = Request(
        views=tuple(names),
        store=without_password(options.store),
        history=tuple(check_history(entry) for entry in options.history or [BY_STREAM]),
        streams=tuple(sorted(set(options.stream))),
        since=options.since,
        until=options.until,
        emit=options.emit,
        hashes=options.hashes,
        slices=options.slices,
        code=code_of(topology, views),
    )
    if request.partial and (options.switch != "yes" or options.hashes):
        raise OptionError(
            "--stream, --since and --until replace streams in the live tables at one stroke, and "
            "--switch and --hashes are for a whole view: leave them out"
        )
    job = Job(
        app=app,
        request=request,
        store=options.store,
        folder=WorkFolder(options.work),
        kafka=kafka,
        stop=stop.is_set,
        switch=options.switch,
        incomplete=options.incomplete,
        fresh=options.fresh,
        cores=options.cores,
        on_spark=lambda spark: _stopping(spark, stop),
    )
    try:
        switched = job.run()
    except Stopped:
        log.info("stopped; the same command goes on from here")
        return STOPPED
    except NoSnapshot as error:
        return cannot(error, log)
    except SPARK_ERRORS as error:
        return _failed(error, kafka)
    return status(job, switched)


def status(job: "Job", switched: bool) -> int:
    """The exit status of a rebuild that came to its end."""
    bad = job.dead or job.missing or not (switched or job.switch == "no")
    return BAD_NEWS if bad else DONE


@contextmanager
def _stopping(spark: Any, stop: Event) -> Iterator[None]:
    """Spark has started, and has taken the signals."""
    take_signals(stop, log, "stopping")
    with stopped_in_order(spark, stop):
        yield


def _drop(options: SimpleNamespace) -> int:
    with opened(options.store) as sink:
        if options.shadow not in (there := sink.shadows()):
            log.info(
                "there are no shadow tables %s; there are: %s",
                options.shadow,
                ", ".join(there) or "none",
            )
        sink.drop(options.shadow)
    return DONE


def _shadows(options: SimpleNamespace) -> int:
    with opened(options.store) as sink:
        for shadow in sink.shadows():
            print(shadow)
    return DONE


def _export(options: SimpleNamespace) -> int:
    from sequitur.rebuild.export import export
    from sequitur.spark.exceptions import SPARK_ERRORS
    from sequitur.spark.session import spark_session

    kafka = kafka_options(options.kafka_option, options.kafka_properties)
    try:
        check_interrupted()
        spark = spark_session("export")
        with stopped_in_order(spark, Event()):
            number = export(spark, options.broker, options.topic, options.to, options.format, kafka)
    except SPARK_ERRORS as error:
        return _failed(error, kafka)
    log.info("%s in %s", counted(number, "message is", "messages are"), options.to)
    return DONE


def _failed(error: Exception, kafka: Mapping[str, str]) -> int:
    """Say what Spark says; of a task's failure, what the task said. Returns the exit status."""
    from sequitur.spark.errors import REMEDIES, told

    mark = f"{CannotRebuild.__module__}.{CannotRebuild.__name__}: "
    for line in str(error).splitlines():
        if mark in line:
            log.error("%s", without_secrets(line.partition(mark)[2], kafka))
            return BAD_NEWS
    retention = "messages were deleted by retention since this was begun; give --fresh"
    torn = "a line of a history file is torn, or no message: mend it, or leave it out"
    remedies = {**REMEDIES, "failOnDataLoss": retention, "MALFORMED_RECORD_IN_PARSING": torn}
    log.error("%s", told(error, kafka, remedies))
    return CANNOT
