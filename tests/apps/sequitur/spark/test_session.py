"""How Spark's JVM is started."""

import re

import pytest

from sequitur.local import jars
from sequitur.spark import session
from sequitur.spark.session import SECRETS, collector


@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"])
def test_a_collector_that_the_environment_chooses_is_the_only_one(name: str) -> None:
    assert collector({name: "-Xmx1g -XX:+UseSerialGC"}) == ""
    assert collector({name: "-Xmx1g"}) == collector({}) == "-XX:+UseParallelGC"


@pytest.mark.parametrize(
    "option",
    [
        *("kafka.sasl.jaas.config", "kafka.ssl.truststore.password", "kafka.ssl.keystore.key"),
        *("kafka.ssl.key.password", "fs.s3a.access.key", "fs.s3a.secret.key", "url"),
    ],
)
def test_what_may_be_secret_is_shown_on_no_page_and_in_no_plan_of_spark(option: str) -> None:
    assert re.search(SECRETS, option)
    assert not re.search(SECRETS, "spark.sql.shuffle.partitions")


@pytest.mark.parametrize(
    ("installed", "jvm", "variable", "carried", "fetched"),
    [
        (True, False, True, True, False),
        (False, True, False, True, True),
        (False, True, True, False, False),  # the user says which jars
        (False, False, False, False, False),  # and has a JVM of their own
    ],
)
def test_jars_are_fetched_once_where_there_is_a_jvm_and_nothing_else_was_said(
    installed: bool,
    jvm: bool,
    variable: bool,
    carried: bool,
    fetched: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[jars.Bundle] = []
    monkeypatch.setattr(jars, "installed", lambda _: installed)
    monkeypatch.setattr(jars, "install", asked.append)
    monkeypatch.setattr(session, "find_spec", lambda _: object() if jvm else None)
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    if variable:
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages x pyspark-shell")
    assert session._carried([jars.CONNECTOR]) is carried
    assert asked == ([jars.CONNECTOR] if fetched else [])
