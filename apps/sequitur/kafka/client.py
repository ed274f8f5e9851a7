"""Java's Kafka client properties in the words of aiokafka, for what a driver connects by itself."""

import re
import ssl
from collections.abc import Mapping
from typing import Any

from sequitur.kafka.options import OptionError
from stores.tls import client_tls

_PREFIX = "kafka."
_LOGIN = re.compile(r"(\w+)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;]+))")
_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


def client_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Arguments of aiokafka's clients for options of Spark's Kafka source.

    TLS with the system's authorities or a PEM trust store, and SASL by PLAIN or SCRAM. Raises
    OptionError for what only Java's client can do.
    """
    known = {key.removeprefix(_PREFIX): value for key, value in options.items()}
    protocol = known.get("security.protocol", "PLAINTEXT").upper()
    found: dict[str, Any] = {}
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise OptionError(
            f"kafka.security.protocol={protocol}: use SSL, SASL_PLAINTEXT or SASL_SSL"
        )
    if protocol != "PLAINTEXT":
        found["security_protocol"] = protocol
    if protocol.endswith("SSL"):
        found["ssl_context"] = _context(known)
    if protocol.startswith("SASL"):
        found |= _login(known)
    return found


def _context(known: Mapping[str, str]) -> ssl.SSLContext:
    for store in ("truststore", "keystore"):
        kind = known.get(f"ssl.{store}.type", "JKS").upper()
        if f"ssl.{store}.location" in known and kind != "PEM":
            raise OptionError(
                f"kafka.ssl.{store}.location is a {kind} store, which only Java reads; the driver "
                f"connects too: give it as a PEM file, with kafka.ssl.{store}.type=PEM"
            )
    try:
        context = client_tls(known.get("ssl.truststore.location"))
        if "ssl.keystore.location" in known:
            password = known.get("ssl.key.password")
            context.load_cert_chain(known["ssl.keystore.location"], password=password)
    except (OSError, ssl.SSLError) as error:
        raise OptionError(f"the PEM files of kafka.ssl cannot be used: {error}") from None
    if known.get("ssl.endpoint.identification.algorithm") == "":
        context.check_hostname = False
    return context


def _login(known: Mapping[str, str]) -> dict[str, Any]:
    mechanism = known.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in _MECHANISMS:
        raise OptionError(
            f"kafka.sasl.mechanism={mechanism}: the driver logs in by "
            + ", ".join(sorted(_MECHANISMS))
        )
    words = {
        name: re.sub(r"\\(.)", r"\1", quoted) or plain
        for name, quoted, plain in _LOGIN.findall(known.get("sasl.jaas.config", ""))
    }
    if not {"username", "password"} <= words.keys():
        raise OptionError("kafka.sasl.jaas.config has no username and password for the driver")
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": words["username"],
        "sasl_plain_password": words["password"],
    }
