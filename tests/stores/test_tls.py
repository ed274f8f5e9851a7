"""A client that is told an authority of one's own trusts what that one has issued."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sequitur.kafka.client import client_settings
from sequitur.kafka.login import kafka_login
from stores.segments.transports.rabbitmq_streams import _tls


def by_login(authority: Path | None) -> Any:
    file = Path("client.properties")
    own = f"ssl.ca.location={authority}\n" if authority else ""
    file.write_text(f"security.protocol=SSL\n{own}")
    return kafka_login("localhost:9093", file)["ssl_context"]


def by_options(authority: Path | None) -> Any:
    own = {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": str(authority)}
    given = {"kafka.security.protocol": "SSL", **(own if authority else {})}
    return client_settings(given)["ssl_context"]


def by_url(authority: Path | None) -> Any:
    return _tls("amqps://localhost" + (f"?cafile={authority}" if authority else ""))


@pytest.mark.parametrize("made", [by_login, by_options, by_url])
def test_only_an_authority_of_one_s_own_may_lack_what_few_of_those_have(
    made: Callable[[Path | None], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    authority = tmp_path / "ca.pem"
    each = ssl.create_default_context().get_ca_certs(binary_form=True)[0]
    authority.write_text(ssl.DER_cert_to_PEM_cert(each))
    create = ssl.create_default_context

    def strict(*given: Any, **named: Any) -> ssl.SSLContext:
        """As Python 3.13 makes it."""
        context = create(*given, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    assert made(None).verify_flags & ssl.VERIFY_X509_STRICT
    context = made(authority)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
