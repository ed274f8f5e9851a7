"""Which certificate authorities the JVM trusts and which proxy it uses: those of the system."""

import ssl
import struct
from collections.abc import Iterable, Iterator
from hashlib import sha1
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies

from sequitur.local.home import HOME

# Debian's and Fedora's; a system with Java keeps private authorities here as well.
_SYSTEM = ("/etc/ssl/certs/java/cacerts", "/etc/pki/java/cacerts")
_PASSWORD = "changeit"


def trust_stores() -> Iterator[list[str]]:
    """Yield the JVM options of the trust stores to try in turn.

    The system's Java key store, one made of the authorities that Python trusts, the JVM's own.
    """
    for store in map(Path, _SYSTEM):
        if store.is_file():
            yield [f"-Djavax.net.ssl.trustStore={store}"]
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)
    if authorities:
        path = HOME / "jvm" / "authorities.jks"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(key_store(authorities))
        yield [
            f"-Djavax.net.ssl.trustStore={path}",
            "-Djavax.net.ssl.trustStoreType=JKS",
            f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
        ]
    yield []


def key_store(certificates: Iterable[bytes]) -> bytes:
    """Return a Java key store (JKS) that trusts the DER certificates.

    Written here since keytool takes one certificate per JVM start, a minute for the usual 140.
    """
    entries = list(certificates)
    body = struct.pack(">III", 0xFEEDFEED, 2, len(entries))
    for number, certificate in enumerate(entries):
        trusted, created = 2, 0
        body += struct.pack(">I", trusted) + _text(str(number)) + struct.pack(">q", created)
        body += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    # The format's integrity check, phrase included; it keeps no secret.
    digest = sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False)
    return body + digest.digest()


def proxy_options() -> list[str]:
    """Return the JVM options for the proxy that the environment names; Java does not look there."""
    options = []
    proxies = getproxies()
    for scheme in ("http", "https"):
        proxy = urlsplit(proxies.get(scheme, ""))
        if proxy.hostname:
            options += [
                f"-D{scheme}.proxyHost={proxy.hostname}",
                f"-D{scheme}.proxyPort={proxy.port or 80}",
            ]
    return options


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded
