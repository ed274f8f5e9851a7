"""Read stores are chosen by URL."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from stores.locks.claim import Claim
from stores.sinks import StoreError, open_sink
from stores.sinks.by_url import needs_spark
from stores.sinks.contract import ORDERS, order
from stores.sinks.sql.sqlite import SqliteSink
from tests.stores.sinks.memory_sink import MemorySink


def test_a_path_from_the_root(tmp_path: Path) -> None:
    with open_sink(f"sqlite:///{tmp_path}/read.db") as sink:
        assert isinstance(sink, SqliteSink)
        assert sink.path == tmp_path / "read.db"


def test_a_path_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with open_sink("sqlite:///some#where/read?.db"):
        assert (tmp_path / "some#where" / "read?.db").exists()


@pytest.mark.parametrize(
    "url", ["read.db", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite://read.db", ""]
)
def test_an_unknown_url_is_refused_with_the_remedy(url: str) -> None:
    with pytest.raises(StoreError, match="sqlite:///FILE"):
        open_sink(url)


def test_no_password_in_the_message() -> None:
    with pytest.raises(StoreError) as refused:
        open_sink("mysql://me:secret@host/db")
    assert "secret" not in str(refused.value)
    assert "mysql://…@host/db" in str(refused.value)


MEMORY = "tests.stores.sinks.memory_sink:open_memory"
"""A sink of a user's own."""


class Entries:
    """Entry points of an installed package, in place of importlib's."""

    def __init__(self, **values: str) -> None:
        self._values = values

    def __call__(self, *, group: str, name: str) -> list[EntryPoint]:
        found = self._values.get(name)
        return [EntryPoint(name, found, group)] if found and group == "sequitur.sinks" else []


def test_a_sink_of_ones_own_is_opened_by_the_scheme_of_an_entry_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stores.sinks.by_url.entry_points", Entries(memory=MEMORY))
    with open_sink("memory://shop", [ORDERS]) as sink:
        assert isinstance(sink, MemorySink)
        assert sink.apply([order(0, 1, state="new")]).applied == 1
    with open_sink("memory://shop") as sink:
        assert list(sink.rows("orders")) == [{"id": 1, "state": "new"}]
    with pytest.raises(StoreError, match="'memoir://shop' is of no known kind"):
        open_sink("memoir://shop")


def test_a_known_scheme_is_never_an_entry_point_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stores.sinks.by_url.entry_points", Entries(sqlite=MEMORY, delta=MEMORY))
    for url in ("sqlite:///", "sqlite:shop", "delta:///"):
        with pytest.raises(StoreError, match="no known kind"):
            open_sink(url)


def raising(url: str, tables: object, shadow: object) -> object:
    raise ConnectionRefusedError(f"no answer from {url}")


def nothing(url: str, tables: object, shadow: object) -> object:
    return None


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"{__name__}:raising?user:secret", "opening it failed .ConnectionRefusedError: no answer"),
        (f"{__name__}:nothing", "is no sink, but of type NoneType; see stores.sinks.Sink"),
        (f"{__name__}:nowhere", "has no 'nowhere'"),
        ("no_such_module_at_all:opened", "there is no module 'no_such_module_at_all'"),
        ("shop:opened:twice", "module:name"),
    ],
)
def test_what_is_wrong_with_a_sink_of_ones_own_is_one_line(url: str, reason: str) -> None:
    with pytest.raises(StoreError, match=reason) as refused:
        open_sink(url)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_what_a_sink_of_ones_own_refuses_is_told_as_it_says_it() -> None:
    with pytest.raises(StoreError, match=r"^shadow 'No': the name of shadow tables"):
        open_sink(f"{MEMORY}?refused", shadow="No")


def test_a_rebuild_into_a_store_of_ones_own_is_refused_with_the_reason() -> None:
    assert not needs_spark(MEMORY)
    with pytest.raises(StoreError, match="in a store of your own"):
        Claim(MEMORY, ["view"])
