"""A login of the command line: for the processes beside workers, and for the workers."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from click import BadParameter

from sequitur.cli.options import BROKER
from sequitur.kafka.login import kafka_login, worker_login
from sequitur.kafka.options import OptionError
from topology import Topology
from topology.faust import Settings, compile
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
        ("security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI", r"sasl\.mechanism='GSSAPI'; use one"),
        ("ssl.ca.location=/nope", r"ssl\.ca\.location needs security\.protocol=SSL or SASL_SSL"),
        ("sasl.username=me\nsasl.password=x", r"sasl\.username needs security\.protocol=SASL_SSL"),
        ("security.protocol=SSL\nsasl.password=x", r"sasl\.password needs security\.protocol=SASL"),
        (
            "security.protocol=SSL\nssl.ca.location=/nope",
            r"ssl\.ca\.location=/nope: No such file or directory",
        ),
        ("security.protocol=SSL\nssl.ca.location=/dev/null", r"ssl\.ca\.location=/dev/null: .+"),
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


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    with pytest.raises(OptionError, match=r"client\.properties: No such file"):
        kafka_login(None, file)
    file.write_bytes(b"client.id=\xff")
    with pytest.raises(OptionError, match=r"client\.properties: it is no text"):
        kafka_login(None, file)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a:1", "a:1"),
        ("a:1;b:2", "a:1,b:2"),
        ("a:1, b:2,", "a:1,b:2"),
        ("a:9092;", "a:9092"),
        ("kafka://a:1;kafka://[::1]:2", "a:1,[::1]:2"),
        *((text, None) for text in ("", ";", "ssl://a:9093", "me:hush@h:1", "a:1;me:hush@h:1")),
    ],
)
def test_workers_and_the_commands_beside_them_read_brokers_alike(
    text: str, read: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQUITUR_BROKER", text)
    reading: list[Callable[[], str]] = [
        lambda: Settings().broker.replace(";", ","),
        lambda: str(kafka_login()["bootstrap_servers"]),
        lambda: str(kafka_login(text)["bootstrap_servers"]),
        lambda: str(BROKER(text)),
    ]
    for each in reading:
        if read is not None:
            assert each() == read
            continue
        with pytest.raises((ValueError, BadParameter), match="write host:port") as refused:
            each()
        assert "hush" not in str(refused.value)
