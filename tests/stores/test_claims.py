"""Claims on a read store: one at a time, and what a dead process left can be taken over."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stores.claims import Claim, claims_of
from stores.sink import StoreError
from stores.sinks import open_sink


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
    first = Claim(url, ["view a"], seconds=0.5).__enter__()
    first.note("rebuild_x")
    dead(first)
    with pytest.raises(StoreError, match="can be taken over in"):
        Claim(url, ["view a"]).__enter__()
    time.sleep(0.6)
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


def test_a_claim_is_renewed(url: str) -> None:
    with Claim(url, ["view a"], seconds=0.4) as claim:
        time.sleep(1)
        claim.check()
        with pytest.raises(StoreError):
            Claim(url, ["view a"]).__enter__()


def test_one_that_was_out_of_touch_is_told(url: str, tmp_path: Path) -> None:
    with Claim(url, ["view a"], seconds=0.4) as claim:
        with closing(sqlite3.connect(tmp_path / "read.db")) as connection, connection:
            connection.execute("UPDATE _claims SET owner = 'somebody'")
        deadline = time.monotonic() + 20
        while not claim._lost and time.monotonic() < deadline:
            time.sleep(0.05)
        with pytest.raises(StoreError, match="taken its work over"):
            claim.check()


def test_a_sink_does_not_mind(url: str) -> None:
    with Claim(url, ["view a"]), open_sink(url) as sink:
        assert sink.sides() == []
        with pytest.raises(StoreError):
            sink.count("_claims")


def test_a_store_without_a_database_has_no_claims() -> None:
    assert claims_of("delta:///folder") is None


@pytest.mark.integration
def test_postgres(database: str, unique: Callable[[str], str]) -> None:
    with Claim(database, ["view a"], seconds=0.4) as claim:
        claim.note("rebuild_x")
        time.sleep(1)
        claim.check()
        with pytest.raises(StoreError, match="is being rebuilt"):
            Claim(database, ["view a"]).__enter__()
    with Claim(database, ["view a"]) as claim:
        assert claim.left == {"view a": "rebuild_x"}
