"""Claims on a read store: one at a time, and what a dead process left can be taken over."""

import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from stores.locks.claim import Claim
from stores.sinks import StoreError, open_sink


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'read.db'}"


def test_two_at_once_are_refused(url: str) -> None:
    with Claim(url, ["view a", "view b"]):
        with (
            pytest.raises(StoreError, match="view b is being rebuilt by process"),
            Claim(url, ["view b", "view c"]),
        ):
            pass
        with Claim(url, ["view c"]):
            pass
    with Claim(url, ["view b"]):
        pass


def dead(claim: Claim) -> None:
    """Let a claim's process be dead: it renews no more, and gives nothing back."""
    claim._ended.set()
    claim._thread.join()


def test_what_a_dead_one_left_is_known_when_it_is_taken_over(url: str) -> None:
    first = Claim(url, ["view a"], seconds=60).__enter__()
    first.note("rebuild_x")
    dead(first)
    with pytest.raises(StoreError, match="can be taken over in"):
        Claim(url, ["view a"]).__enter__()
    assert first._lines.renew(first.names, first.owner, 0)  # its time is over
    with Claim(url, ["view a"]) as second:
        assert second.left == {"view a": "rebuild_x"}
        with pytest.raises(StoreError):
            Claim(url, ["view a"]).__enter__()
    # It is left until somebody says that it is no more.
    with Claim(url, ["view a"]) as third:
        assert third.left == {"view a": "rebuild_x"}
        third.note("")
    with Claim(url, ["view a"]) as fourth:
        assert fourth.left == {}


def test_a_claim_of_an_earlier_version_is_known(url: str, tmp_path: Path) -> None:
    with Claim(url, ["view a"]) as first:
        first.note("rebuild_x")
    with closing(sqlite3.connect(tmp_path / "read.db")) as connection, connection:
        connection.execute("ALTER TABLE _claims RENAME COLUMN shadow TO side")
    with Claim(url, ["view a"]) as second:
        assert second.left == {"view a": "rebuild_x"}


def set_back(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "read.db")) as connection, connection:
        connection.execute("UPDATE _claims SET until = until + 3600 * 1000")


def test_a_clock_that_was_set_back_does_not_keep_a_dead_one_s_claim(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Claim(url, ["view a"], seconds=60).__enter__()
    first.note("rebuild_x")

    def renews(_: float) -> None:
        assert first._lines.renew(first.names, first.owner, 60)

    clock = SimpleNamespace(sleep=renews, strftime=time.strftime)
    monkeypatch.setattr("stores.locks.claim.time", clock)
    set_back(tmp_path)
    with pytest.raises(StoreError, match="being rebuilt"):
        Claim(url, ["view a"]).__enter__()  # the first one is alive and renews it meanwhile
    dead(first)
    clock.sleep = lambda _: None
    set_back(tmp_path)
    with Claim(url, ["view a"]) as second:
        assert second.left == {"view a": "rebuild_x"}


def test_a_claim_is_renewed(url: str, tmp_path: Path) -> None:
    def until() -> int:
        with closing(sqlite3.connect(tmp_path / "read.db")) as connection:
            return int(connection.execute("SELECT until FROM _claims").fetchone()[0])

    with Claim(url, ["view a"], seconds=0.4) as claim:
        before = until()
        while until() == before:
            time.sleep(0.05)
        claim.check()


def test_one_that_was_out_of_touch_is_told(url: str, tmp_path: Path) -> None:
    with Claim(url, ["view a"], seconds=0.4) as claim:
        with closing(sqlite3.connect(tmp_path / "read.db")) as connection, connection:
            connection.execute("UPDATE _claims SET owner = 'somebody'")
        deadline = time.monotonic() + 120
        while not claim._lost and time.monotonic() < deadline:
            time.sleep(0.05)
        with pytest.raises(StoreError, match="taken its work over"):
            claim.check()


def test_a_sink_does_not_mind(url: str) -> None:
    with Claim(url, ["view a"]), open_sink(url) as sink:
        assert sink.shadows() == []
        with pytest.raises(StoreError):
            sink.count("_claims")


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["postgresql", "delta"])
def test_other_stores(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if kind == "delta":
        request.getfixturevalue("spark")
        url = f"delta:///{tmp_path}/store"
    else:
        url = request.getfixturevalue("database")
    with Claim(url, ["view a"]) as claim:
        claim.note("rebuild_x")
        assert claim._lines.renew(claim.names, claim.owner, 100)
        with pytest.raises(StoreError, match=r"is being rebuilt.*in \d+ s"):
            Claim(url, ["view a", "view b"]).__enter__()
        with Claim(url, ["view b"]) as other:
            assert other.left == {}
    lost = Claim(url, ["view a"])
    lost.owner += ", another one"
    lost.__enter__()
    assert lost.left == {"view a": "rebuild_x"}
    dead(lost)
    assert lost._lines.renew(lost.names, lost.owner, 0)
    with Claim(url, ["view a"]) as claim:
        assert claim.left == {"view a": "rebuild_x"}
        claim.note("")
        assert not lost._lines.renew(lost.names, lost.owner, 30)
        with open_sink(url) as sink:
            assert sink.shadows() == []
    lost._lines.close()
    with Claim(url, ["view a"]) as claim:
        assert claim.left == {}


@pytest.mark.integration
def test_of_many_at_once_one_gets_it(spark: object, tmp_path: Path) -> None:
    url, wins = f"delta:///{tmp_path}/store", []
    start = threading.Barrier(6)

    def take(number: int) -> None:
        claim = Claim(url, ["view a"])
        claim.owner = f"thread {number}"
        start.wait()
        with suppress(StoreError):
            claim.__enter__()
            wins.append(claim)

    threads = [threading.Thread(target=take, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    wins[0].__exit__(None, None, None)
    assert {p.suffix for p in (tmp_path / "store" / "_claims").iterdir()} == {".json"}
