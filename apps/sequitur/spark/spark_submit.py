"""Jobs under spark-submit, where Spark's JVM is the process that is told to stop."""

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from threading import Event
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_SECONDS = 60
"""How long a JVM that is told to end waits for the job to end before it."""
_ANSWER_SECONDS = 0.1
"""For the JVM to hear that the job has ended; if it does not, it sees that the process has."""
_FIRST = 1000
"""Spark's own shutdown hooks have lower priorities: they end the session."""


def submitted() -> bool:
    """Whether spark-submit started this process; it is a child of Spark's JVM then."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def stopped_in_order(spark: "SparkSession", stop: Event) -> Iterator[None]:
    """Let the block end the session's work when `stop` is set, and stop the session behind it.

    Under spark-submit a SIGTERM is for the JVM, which would take the session away at once, and what
    this process has to say with it: it sets `stop` here, and waits until this process ends.
    """
    from sequitur.spark.exceptions import SPARK_ERRORS

    with _hook(spark, _Told(stop)) if submitted() else nullcontext():
        try:
            yield
        finally:
            with suppress(*SPARK_ERRORS):
                spark.stop()


@contextmanager
def _hook(spark: "SparkSession", told: "_Told") -> Iterator[None]:
    """Have the JVM call first of all, when it is told to end."""
    from pyspark.java_gateway import ensure_callback_server_started

    from sequitur.spark.exceptions import SPARK_ERRORS

    gateway: Any = spark.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm = gateway.jvm
    hooks = jvm.org.apache.hadoop.util.ShutdownHookManager.get()
    hook = jvm.java.lang.Thread(told)
    hooks.addShutdownHook(hook, _FIRST, _STOP_SECONDS, jvm.java.util.concurrent.TimeUnit.SECONDS)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS):  # of one that is ending
            hooks.removeShutdownHook(hook)


class _Told:
    """A java.lang.Runnable that the JVM runs when it is told to end."""

    def __init__(self, stop: Event) -> None:
        self._stop, self._ended = stop, Event()

    def run(self) -> None:
        atexit.register(self._end)
        self._stop.set()
        self._ended.wait(_STOP_SECONDS)

    def _end(self) -> None:
        self._ended.set()
        time.sleep(_ANSWER_SECONDS)

    class Java:
        implements = ("java.lang.Runnable",)
