"""How Spark's JVM is started."""

import re

import pytest

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
