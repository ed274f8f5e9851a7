"""How to reach Kafka, by SEQUITUR_BROKER and a file of settings; for processes beside workers."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faust.auth import SASLCredentials, SSLCredentials
from faust.types.auth import CredentialsT

from sequitur.kafka.options import OptionError, read_properties
from stores.tls import client_tls
from topology.model.address import read_brokers

_SETTINGS = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
    "client.id": "client_id",
}
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def kafka_login(broker: str | None = None, file: Path | None = None) -> dict[str, Any]:
    """The settings that aiokafka's clients take.

    broker: host:port, or SEQUITUR_BROKER. file: `key=value` lines as librdkafka has them:
    security.protocol, sasl.mechanism, sasl.username, sasl.password, ssl.ca.location. Raises
    OptionError for a line that is none of these, a value that is none, a login without a name, and
    what the protocol has no use for.
    """
    try:
        servers = read_brokers(broker or os.environ.get("SEQUITUR_BROKER", "127.0.0.1:9092"))
    except ValueError as error:
        raise OptionError(f"{'broker' if broker else 'SEQUITUR_BROKER'}: {error}") from None
    found: dict[str, Any] = {"bootstrap_servers": servers}
    authority = ""
    for number, line in enumerate(read_properties(file).splitlines() if file else (), 1):
        key, equals, value = (part.strip() for part in line.partition("="))
        if not key or key.startswith("#"):
            continue
        if equals and key == "ssl.ca.location":
            authority = value
        elif equals and key in _SETTINGS:
            found[_SETTINGS[key]] = value
        elif not equals:
            raise OptionError(f"{file}: line {number} is no key=value")
        else:
            known = ", ".join([*_SETTINGS, "ssl.ca.location"])
            raise OptionError(f"{file}: the setting {key!r} is none of {known}")
    protocol = _one_of(found, "security.protocol", _PROTOCOLS, file)
    if "SASL" in protocol:
        _one_of(found, "sasl.mechanism", _MECHANISMS, file)
        for name in ("sasl.username", "sasl.password"):
            if not found.get(_SETTINGS[name]):
                raise OptionError(f"{file}: security.protocol={protocol} needs {name}")
    elif unused := [name for name in _SETTINGS if "sasl" in name and found.get(_SETTINGS[name])]:
        raise OptionError(f"{file}: {unused[0]} needs security.protocol=SASL_SSL or SASL_PLAINTEXT")
    if "SSL" in protocol:
        try:
            found["ssl_context"] = client_tls(authority or None)
        except OSError as error:
            raise OptionError(f"{file}: ssl.ca.location={authority}: {error.strerror}") from None
    elif authority:
        raise OptionError(f"{file}: ssl.ca.location needs security.protocol=SSL or SASL_SSL")
    return found


def _one_of(found: dict[str, Any], key: str, known: Sequence[str], file: Path | None) -> str:
    """The value, in capitals as aiokafka has it; the first one known where none is given."""
    name = _SETTINGS[key]
    if name not in found:
        return known[0]
    value = str(found[name]).upper()
    if value not in known:
        raise OptionError(f"{file}: {key}={found[name]!r}; use one of {', '.join(known)}")
    found[name] = value
    return value


def worker_login(broker: str | None, file: Path | None) -> dict[str, Any]:
    """The same login as arguments of `topology.faust.compile`.

    broker: host:port, None for that of the environment. Raises OptionError as `kafka_login` does.
    """
    login = kafka_login(broker, file)
    protocol, context = login.get("security_protocol", "PLAINTEXT"), login.get("ssl_context")
    found: dict[str, Any] = {} if broker is None else {"broker": broker}
    if name := login.get("client_id"):
        found["broker_client_id"] = name
    credentials: CredentialsT | None = None
    if protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        credentials = SASLCredentials(
            username=login.get("sasl_plain_username"),
            password=login.get("sasl_plain_password"),
            ssl_context=context,
            mechanism=login.get("sasl_mechanism", "PLAIN"),
        )
    elif context is not None:
        credentials = SSLCredentials(context)
    return found if credentials is None else {**found, "broker_credentials": credentials}
