"""A login of the command line: for the processes beside workers, and for the workers."""

import ssl
from pathlib import Path

import pytest

from sequitur.kafka.login import kafka_login, worker_login
from topology import Topology
from topology.faust import compile
from topology.faust.kafka.clients import connection


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "security.protocol=SSL\nclient.id=router",
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username=me\nsasl.password=x",
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=me\nsasl.password=x",
    ],
)
def test_a_worker_logs_in_as_the_commands_beside_it_do(tmp_path: Path, lines: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(lines)
    own = kafka_login("kafka.example.com:9093", file)
    app = compile(
        Topology("shop"), datadir=str(tmp_path), **worker_login("kafka.example.com:9093", file)
    )
    worker = connection(app)
    for each in (own, worker):
        if "SSL" in str(each.get("security_protocol")):
            context = each["ssl_context"]
            assert isinstance(context, ssl.SSLContext)
            assert context.check_hostname
            each["ssl_context"] = None
    worker["bootstrap_servers"] = ",".join(worker["bootstrap_servers"])
    known = {"client_id": worker["client_id"], "security_protocol": "PLAINTEXT"}
    for name in ("request_timeout_ms", *(() if "ssl_context" in own else ("ssl_context",))):
        worker.pop(name, None)
    assert worker == known | own


def test_values_are_known_in_small_letters_too_as_librdkafka_has_them(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=sasl_ssl\nsasl.mechanism=scram-sha-256\n"
        "sasl.username=me\nsasl.password=x\n"
    )
    found = kafka_login(None, file)
    assert (found["security_protocol"], found["sasl_mechanism"]) == ("SASL_SSL", "SCRAM-SHA-256")
    assert isinstance(found["ssl_context"], ssl.SSLContext)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("security.protocol=TLS", r"security\.protocol='TLS'; use one of PLAINTEXT, SSL,"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=MD5", r"sasl\.mechanism='MD5'; use one of"),
        (
            "security.protocol=SASL_SSL\nsasl.username=me",
            r"security\.protocol=SASL_SSL needs sasl\.password",
        ),
    ],
)
def test_a_login_that_is_none_is_refused(tmp_path: Path, lines: str, said: str) -> None:
    file = tmp_path / "client.properties"
    file.write_text(lines)
    for login in (kafka_login, worker_login):
        with pytest.raises(ValueError, match=f"client.properties: {said}"):
            login(None, file)
