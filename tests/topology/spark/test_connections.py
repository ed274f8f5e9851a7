"""What a file of client properties says reaches both connections: the driver's and Spark's."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sequitur.kafka.client import client_settings
from sequitur.kafka.options import kafka_options
from tests.topology.spark import shops
from topology.spark import live, writer
from topology.spark.reference import refer
from topology.spark.settings import Settings

_PROPERTIES = """
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="me" password="hush";
"""


class _Connected(Exception):
    """As far as a connection goes here."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    file = tmp_path / "client.properties"
    file.write_text(_PROPERTIES)
    kafka = kafka_options(["kafka.session.timeout.ms=9000"], file)
    return Settings("broker:9093", str(tmp_path), kafka=kafka, client=client_settings(kafka))


def test_the_driver_logs_in_by_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    class Admin:
        def __init__(self, **named: Any) -> None:
            seen.append(named)

        async def close(self) -> None:
            """Nothing is open."""

    class Producer:
        def __init__(self, **named: Any) -> None:
            seen.append(named)
            raise _Connected

    monkeypatch.setattr(writer, "AIOKafkaAdminClient", Admin)
    monkeypatch.setattr(writer, "AIOKafkaProducer", Producer)
    one = writer.OutputWriter(settings, shops.topology)
    with pytest.raises(_Connected):
        one.start(None)
    one.close()
    for named in seen:
        assert named["bootstrap_servers"] == "broker:9093"
        assert named["security_protocol"] == "SASL_SSL"
        assert named["sasl_mechanism"] == "SCRAM-SHA-512"
        assert (named["sasl_plain_username"], named["sasl_plain_password"]) == ("me", "hush")
        assert named["ssl_context"].check_hostname
    assert len(seen) == 2


def test_spark_reads_by_it(settings: Settings) -> None:
    seen: dict[str, str] = {}

    def options(**named: str) -> None:
        seen.update(named)
        raise _Connected

    reader = SimpleNamespace(format=lambda _: SimpleNamespace(options=options))
    spark: Any = SimpleNamespace(readStream=reader)
    with pytest.raises(_Connected):
        live._outcomes(spark, refer(shops.topology), shops.topology, settings)
    assert seen["kafka.bootstrap.servers"] == "broker:9093"
    assert seen["kafka.security.protocol"] == "SASL_SSL"
    assert 'username="me" password="hush"' in seen["kafka.sasl.jaas.config"]
    assert seen["kafka.session.timeout.ms"] == "9000"
    assert "hush" not in repr(settings)
