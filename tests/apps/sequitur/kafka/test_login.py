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


def test_a_protocol_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=TLS\n")
    with pytest.raises(ValueError, match="use SSL"):
        worker_login(None, file)
