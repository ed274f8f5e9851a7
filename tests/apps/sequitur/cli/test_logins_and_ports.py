"""A wrong login, and a port in use: one line that names it, and status 2."""

import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sequitur.cli.main import main

SITES = """
own = "newark"
topics = ["movements"]
[site.newark]
broker = "127.0.0.1:1"
[site.kennedy]
broker = "BROKER"
properties = "client.properties"
"""
ALERTS = """
topics = ["shop.errors"]
[[pattern]]
name = "any"
actions = ["tell"]
[action.tell]
webhook = "http://127.0.0.1:1"
"""
READ = ["--topics", "a", "--read-store", "sqlite:///read.db"]
LIVE = ["--topology", "sequitur.flights:topology"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sites.toml").write_text(SITES.replace("BROKER", "127.0.0.1:1"))
    (tmp_path / "login.toml").write_text(SITES.replace("BROKER", "me:hush@127.0.0.1:1"))
    (tmp_path / "router.toml").write_text('router = { name = "r", broker = "me:hush@h:1" }')
    (tmp_path / "alerts.toml").write_text(ALERTS)
    (tmp_path / "client.properties").write_text("client.id=one")
    return tmp_path


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[list[str]], str]:
    """The one line of a command that cannot be done."""

    def line(words: list[str]) -> str:
        assert main(words) == 2
        (record,) = [each for each in caplog.records if each.levelno >= logging.ERROR]
        assert record.exc_info is None
        assert "\n" not in record.getMessage()
        return record.getMessage()

    return line


@pytest.fixture
def port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield str(other.getsockname()[1])


@pytest.mark.parametrize(
    "words",
    [
        ["sites", "forward", "sites.toml"],
        ["sites", "lag", "sites.toml"],
        ["alerts", "alerts.toml", "--kafka-properties", "client.properties"],
        ["materialize", *READ, "--checkpoint", "c", "--kafka-properties", "client.properties"],
        ["live", *LIVE, "--checkpoint", "c", "--kafka-properties", "client.properties"],
    ],
)
@pytest.mark.parametrize(
    ("content", "says"), [(b"what", "1 is no key=value"), (b"\xff=\n", "it is no text")]
)
def test_a_file_of_properties_that_is_none(
    words: list[str], content: bytes, says: str, here: Path, told: Callable[[list[str]], str]
) -> None:
    (here / "client.properties").write_bytes(content)
    line = told(words)
    assert "client.properties" in line
    assert says in line


@pytest.mark.parametrize(
    "words", [["sites", "forward", "sites.toml"], ["alerts", "alerts.toml"]], ids=" ".join
)
def test_a_port_in_use(words: list[str], port: str, told: Callable[[list[str]], str]) -> None:
    line = told([*words, "--metrics", port])
    assert port in line
    assert "address already in use" in line


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["sites", "lag", "login.toml"], "login.toml: broker: write host:port"),
        (["route", "status", "router.toml"], "router.toml: router: broker: write host:port"),
    ],
)
def test_a_password_in_the_broker_of_a_file_is_not_told(
    words: list[str], says: str, told: Callable[[list[str]], str]
) -> None:
    line = told(words)
    assert line.startswith(says)
    assert "hush" not in line
