import ssl
import subprocess
from pathlib import Path

import pytest

from sequitur.local import certificates, jvm


def test_java_reads_the_key_store_that_we_write(tmp_path: Path) -> None:
    authorities = ssl.create_default_context().get_ca_certs(binary_form=True)[:3]
    store = tmp_path / "authorities.jks"
    store.write_bytes(certificates.key_store(authorities))
    keytool = jvm.runtime() / "bin" / "keytool"
    done = subprocess.run(
        [keytool, "-list", "-keystore", store, "-storetype", "JKS", "-storepass", "changeit"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("trustedCertEntry") == len(authorities)


def test_the_jvms_own_store_is_the_last_resort() -> None:
    assert list(certificates.trust_stores())[-1] == []


def test_java_is_told_of_the_proxy_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert certificates.proxy_options() == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
    ]
