from pathlib import Path

import pytest

from bench.job import Job, job
from bench.peers import kafka_streams, quix
from bench.peers.registry import FAUST, PEERS
from sequitur.local import jars


def test_a_program_finds_its_job_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Job("127.0.0.1:9", "in", "out", "group", Path("data"), "at_least_once", 8)
    for name, value in given.environment().items():
        monkeypatch.setenv(name, value)
    assert job() == given


def test_every_jar_of_kafka_streams_is_pinned() -> None:
    pins = kafka_streams.STREAMS.pins()
    assert len(pins) == 11
    for coordinate in kafka_streams.STREAMS.coordinates:
        _, module, revision = coordinate.split(":")
        assert f"{module}-{revision}.jar" in pins
    assert list(kafka_streams.COMPILER.pins()) == ["ecj-3.42.0.jar"]
    assert not pins.keys() & kafka_streams.COMPILER.pins().keys()


def test_the_peers_broker_and_client_have_one_version() -> None:
    assert jars.BROKER.coordinates[0].endswith(f":{kafka_streams.VERSION}")
    assert f"kafka-clients-{kafka_streams.VERSION}.jar" in kafka_streams.STREAMS.pins()


def test_what_is_not_installed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_streams, "JARS", tmp_path)
    monkeypatch.setattr(quix, "_COMPLETE", tmp_path / "complete")
    missing = {name: peer.missing() for name, peer in PEERS.items()}
    assert missing == {
        "sequitur": None,
        "limit": None,
        "kafka-streams": "its jars are not installed",
        "quix": "its environment is not installed",
        "faust": None,
    }


def test_another_program_is_another_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_streams, "FOLDER", tmp_path)
    monkeypatch.setattr(jars, "installed", lambda bundle, place: True)
    assert kafka_streams.missing() == "its program is not compiled"
    kafka_streams._classes().mkdir(parents=True)
    assert kafka_streams.missing() is None
    changed = tmp_path / "Resequence.java"
    changed.write_text("class Resequence {}")
    monkeypatch.setattr(kafka_streams, "SOURCE", changed)
    assert kafka_streams.missing() == "its program is not compiled"


def test_stock_faust_is_not_asked_for_what_it_does_not_have() -> None:
    assert FAUST.guarantees == ("at_least_once",)
    assert all(len(peer.guarantees) == 2 for peer in PEERS.values() if peer is not FAUST)
