"""Rebuild views from history: beside the live tables, which are then replaced at one stroke.

    python -m sequitur.rebuild.command run --app shop --view order_board --store sqlite:///shop.sqlite
    python -m sequitur.rebuild.command drop --store sqlite:///shop.sqlite
    spark-submit … apps/sequitur/rebuild/command.py run …

Workers and materializers run on meanwhile. A rebuild that was stopped or killed goes on when the
same command is given again.

The exit status is 0 if it is done; 1 if the history is not enough, if records could not be applied,
or if the tables differ and so were not switched; 2, with one line, if something could not be had or
reached; 130 after SIGTERM and Ctrl-C.
"""

import argparse
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from sequitur.cli.arguments import URL_HELP, Parser, add_broker, add_kafka, url
from sequitur.cli.outcome import BAD_NEWS, CANNOT, DONE, MISTAKES, cannot, log_to_stderr
from sequitur.cli.signals import interrupted_by, take_signals
from sequitur.kafka.options import OptionError, kafka_options, without_secrets
from sequitur.materialize.open_sink import opened
from sequitur.spark.submitted import stopped_in_order
from stores.db.urls import without_password
from stores.sinks import OLD
from topology.model.closest import closest
from topology.view_rebuild import CannotRebuild

if TYPE_CHECKING:
    from sequitur.rebuild.job import Job

STOPPED = 130

log = logging.getLogger("rebuild")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit status."""
    options = _parser().parse_args(arguments)
    place = getattr(options, "store", None)
    with suppress(OptionError):
        kafka = kafka_options(
            getattr(options, "kafka_option", ()), getattr(options, "kafka_properties", None)
        )
        log_to_stderr([place], kafka)
    log_to_stderr([place])
    for loud, level in (("aiokafka", "CRITICAL"), ("faust", "WARNING"), ("kafka", "WARNING")):
        logging.getLogger(loud).setLevel(level)  # what ends it is told by itself
    interrupted_by()
    commands = {"run": _run, "drop": _drop, "shadows": _shadows, "export": _export}
    try:
        return commands[options.command](options)
    except KeyboardInterrupt:
        return STOPPED
    except CannotRebuild as error:
        log.error("%s", error)
        return BAD_NEWS
    except MISTAKES as error:
        return cannot(error, log, place)


def _parser() -> argparse.ArgumentParser:
    parser = Parser("rebuild", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)

    run = commands.add_parser("run", help="rebuild views, and put them in the live tables' place")
    add = run.add_argument
    add("--app", required=True, metavar="MODULE", help="of the worker, as in faust -A")
    add("--view", action="append", required=True, help="may be repeated: all in one pass")
    _store(run)
    add("--work", type=Path, default=Path("rebuild"), metavar="DIR", help="(%(default)s)")
    add(
        "--history",
        action="append",
        metavar="WHAT",
        help="by-stream (the default), sources, parquet:FOLDER or json:FOLDER; may be repeated",
    )
    add("--stream", action="append", default=[], help="only this stream; may be repeated")
    add("--since", type=_time, help="only streams with a message from this time on (ISO 8601)")
    add("--until", type=_time, help="only streams with a message before this time")
    add("--switch", choices=("yes", "same", "no"), default="yes", help="(%(default)s)")
    add("--incomplete", action="store_true", help="even if the history lacks events")
    add("--emit", action="store_true", help="send what handlers emit once more")
    add("--hashes", action="store_true", help="compare what each stream said with the output topic")
    add("--fresh", action="store_true", help="do not go on with what was begun")
    add("--slices", type=int, default=0, metavar="N", help="tasks (8 a core)")
    add("--cores", type=int, metavar="N", help="of this machine (all), unless under spark-submit")
    add_kafka(run)

    drop = commands.add_parser("drop", help="delete the tables that were replaced")
    _store(drop)
    drop.add_argument("--shadow", default=OLD, help="(%(default)s)")

    shadows = commands.add_parser(
        "shadows", help="list the sets of shadow tables beside the live ones"
    )
    _store(shadows)

    export = commands.add_parser("export", help="write a topic's messages to files")
    add = export.add_argument
    add_broker(export)
    add("--topic", required=True, action="append", help="may be repeated")
    add("--to", required=True, metavar="FOLDER", help="which is not there yet")
    add("--format", choices=("parquet", "json"), default="parquet", help="(%(default)s)")
    add_kafka(export)
    return parser


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        type=url,
        default="sqlite:///read.db",
        metavar="URL",
        help=f"the read store (%(default)s); {URL_HELP}",
    )


def _run(options: argparse.Namespace) -> int:
    from sequitur.rebuild.build import BY_STREAM, Stopped, check_history
    from sequitur.rebuild.job import Job
    from sequitur.rebuild.plan import Request, WorkFolder, code_of
    from sequitur.rebuild.worker_app import load_app
    from sequitur.spark.exceptions import SPARK_ERRORS
    from topology.faust.worker.snapshot import NoSnapshot

    stop = Event()
    take_signals(stop, log, "stopping")
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
    return BAD_NEWS if job.dead or not (switched or job.switch == "no") else DONE


@contextmanager
def _stopping(spark: Any, stop: Event) -> Iterator[None]:
    """Spark has started, and has taken the signals."""
    take_signals(stop, log, "stopping")
    with stopped_in_order(spark, stop):
        yield


def _drop(options: argparse.Namespace) -> int:
    with opened(options.store) as sink:
        if options.shadow not in (there := sink.shadows()):
            log.info(
                "there are no shadow tables %s; there are: %s",
                options.shadow,
                ", ".join(there) or "none",
            )
        sink.drop(options.shadow)
    return 0


def _shadows(options: argparse.Namespace) -> int:
    with opened(options.store) as sink:
        for shadow in sink.shadows():
            print(shadow)
    return 0


def _export(options: argparse.Namespace) -> int:
    from sequitur.rebuild.export import export
    from sequitur.spark.exceptions import SPARK_ERRORS
    from sequitur.spark.session import spark_session

    kafka = kafka_options(options.kafka_option, options.kafka_properties)
    try:
        spark = spark_session("export")
        with stopped_in_order(spark, Event()):
            number = export(spark, options.broker, options.topic, options.to, options.format, kafka)
    except SPARK_ERRORS as error:
        return _failed(error, kafka)
    log.info("%s messages are in %s", f"{number:,}", options.to)
    return 0


def _time(text: str) -> int:
    """A time as milliseconds; UTC unless it says otherwise."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)


def _failed(error: Exception, kafka: Mapping[str, str]) -> int:
    """Say what Spark says; of a task's failure, what the task said. Returns the exit status."""
    from sequitur.spark.errors import REMEDIES, told

    mark = f"{CannotRebuild.__module__}.{CannotRebuild.__name__}: "
    for line in str(error).splitlines():
        if mark in line:
            log.error("%s", without_secrets(line.partition(mark)[2], kafka))
            return BAD_NEWS
    retention = "messages were deleted by retention since this was begun; give --fresh"
    log.error("%s", told(error, kafka, {**REMEDIES, "failOnDataLoss": retention}))
    return CANNOT


if __name__ == "__main__":
    sys.exit(main())
