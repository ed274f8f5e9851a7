"""How Spark's JVM is started."""

import pytest

from apps.spark_session import collector


@pytest.mark.parametrize("name", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"])
def test_a_collector_that_the_environment_chooses_is_the_only_one(name: str) -> None:
    assert collector({name: "-Xmx1g -XX:+UseSerialGC"}) == ""
    assert collector({name: "-Xmx1g"}) == collector({}) == "-XX:+UseParallelGC"
