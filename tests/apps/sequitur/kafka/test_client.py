"""Java's client properties in the words of aiokafka."""

import ssl
from pathlib import Path

import pytest

from sequitur.kafka.client import client_settings
from sequitur.kafka.options import OptionError


def test_without_options_there_is_nothing_to_say() -> None:
    assert client_settings({"failOnDataLoss": "false"}) == {}


def test_a_login_is_taken_from_the_jaas_line() -> None:
    line = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="a \\"b\\" = c;";'
    )
    found = client_settings(
        {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.jaas.config": line,
        }
    )
    assert found == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "me",
        "sasl_plain_password": 'a "b" = c;',
    }


def test_tls_checks_the_host_unless_told_not_to() -> None:
    context = client_settings({"kafka.security.protocol": "SSL"})["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
    off = {"kafka.security.protocol": "SSL", "kafka.ssl.endpoint.identification.algorithm": ""}
    assert not client_settings(off)["ssl_context"].check_hostname


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.security.protocol": "TLS"}, "use SSL"),
        (
            {"kafka.security.protocol": "SSL", "kafka.ssl.truststore.location": "/x.jks"},
            "give it as a PEM file",
        ),
        ({"kafka.security.protocol": "SASL_SSL"}, "GSSAPI: the driver logs in by"),
        (
            {
                "kafka.security.protocol": "SASL_PLAINTEXT",
                "kafka.sasl.mechanism": "PLAIN",
                "kafka.sasl.jaas.config": "secret",
            },
            "no username and password",
        ),
    ],
)
def test_what_only_java_can_do_is_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(OptionError, match=says) as error:
        client_settings(options)
    assert "secret" not in str(error.value)


def test_a_store_that_is_no_pem_file_is_named(tmp_path: Path) -> None:
    store = tmp_path / "store.pem"
    store.write_text("nothing")
    with pytest.raises(OptionError, match="PEM files"):
        client_settings(
            {
                "kafka.security.protocol": "SSL",
                "kafka.ssl.truststore.type": "PEM",
                "kafka.ssl.truststore.location": str(store),
            }
        )
