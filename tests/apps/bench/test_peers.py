from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.job import Job, job
from bench.peers import flink, kafka_streams, quix
from bench.peers.java import COMPILER
from bench.peers.registry import FAUST, FLINK, PEERS
from sequitur.local import jars


def test_a_program_finds_its_job_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = Job("127.0.0.1:9", "in", "out", "group", Path("data"), "at_least_once", 8)
    for name, value in given.environment().items():
        monkeypatch.setenv(name, value)
    assert job() == given


@pytest.mark.parametrize(("peer", "count"), [(kafka_streams, 11), (flink, 56)])
def test_every_jar_of_a_peer_is_pinned(peer: Any, count: int) -> None:
    pins = peer.PEER.bundle.pins()
    assert len(pins) == count
    for coordinate in peer.PEER.bundle.coordinates:
        _, module, revision = coordinate.split(":")
        assert f"{module}-{revision}.jar" in pins
    assert list(COMPILER.pins()) == ["ecj-3.42.0.jar"]
    assert not pins.keys() & COMPILER.pins().keys()


def test_the_peers_broker_and_client_have_one_version() -> None:
    assert jars.BROKER.coordinates[0].endswith(f":{kafka_streams.VERSION}")
    assert f"kafka-clients-{kafka_streams.VERSION}.jar" in kafka_streams.PEER.bundle.pins()


def test_what_is_not_installed_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jars, "installed", lambda bundle, place: False)
    monkeypatch.setattr(quix, "_COMPLETE", tmp_path / "complete")
    missing = {name: peer.missing() for name, peer in PEERS.items()}
    assert missing == {
        "sequitur": None,
        "limit": None,
        "kafka-streams": "its jars are not installed",
        "flink": "its jars are not installed",
        "quix": "its environment is not installed",
        "faust": None,
    }


def test_another_program_is_another_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "installed", lambda bundle, place: True)
    peer = replace(kafka_streams.PEER, folder=tmp_path)
    assert peer.missing() == "its program is not compiled"
    peer.classes.mkdir(parents=True)
    assert peer.missing() is None
    changed = tmp_path / "Resequence.java"
    changed.write_text("class Resequence {}")
    assert replace(peer, source=changed).missing() == "its program is not compiled"


def test_stock_faust_is_not_asked_for_what_it_does_not_have() -> None:
    assert FAUST.guarantees == ("at_least_once",)
    one = (FAUST, FLINK)
    assert all(len(peer.guarantees) == 2 for peer in PEERS.values() if peer not in one)
