"""Slices into a shadow: each record once, however often the loading begins anew."""

from pathlib import Path

import orjson
import pytest

from sequitur.rebuild import load
from sequitur.rebuild.load import Loader, Refused
from stores.sinks import Position, open_sink
from topology import Table
from topology.spark import slices as slices_of
from topology.spark.slices import Emitted, Slices
from topology.view_rebuild import Rebuilt

TABLE = Table("rows", key={"id": str}, columns={"n": int})


def rebuilt(stream: str, sequence: int, n: object) -> Rebuilt:
    change = {"op": "upsert", "table": "rows", "key": {"id": stream}, "values": {"n": n}}
    body = {"view": "v", "stream": stream, "sequence": sequence, "changes": [change]}
    return Rebuilt("v", stream, sequence, orjson.dumps(body))


def nothing() -> None:
    """Nobody wants it to stop."""


def test_slices_are_loaded_as_they_come_and_once(tmp_path: Path) -> None:
    slices = Slices(str(tmp_path / "slices"))
    message = Emitted("log", b"k", b"v", [])
    slices.write(1, [rebuilt("a", 3, 1), message, rebuilt("b", 4, 2)], dict)
    sent: list[Emitted] = []
    url = f"sqlite:///{tmp_path / 'read.db'}"
    with open_sink(url, [TABLE], shadow="new") as shadow:
        loader = Loader(shadow, slices, 0, {"v": "shop.v"}, sent.extend)
        loader.load(nothing)
        slices.write(0, [rebuilt("c", 1, 3)], dict)
        loader.load(nothing)
        loader.load(nothing)
        assert (loader.applied.applied, loader.applied.replayed) == (3, 0)
        assert sent == [message]
        again = Loader(shadow, slices, 0, {"v": "shop.v"})
        again.load(nothing)
        assert (again.applied.applied, again.applied.replayed) == (0, 3)
        # Slices of another source of the view have the same numbers, and are others.
        others = Slices(str(tmp_path / "others"))
        others.write(1, [rebuilt("d", 1, 4)], dict)
        other = Loader(shadow, others, 1, {"v": "shop.v"})
        other.load(nothing)
        assert (other.applied.applied, other.applied.replayed) == (1, 0)
        assert shadow.count("rows") == 4


def test_large_records_are_loaded_in_several_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = rebuilt("a", 1, 1)
    monkeypatch.setattr(load, "BYTES", 2 * len(row.value))
    monkeypatch.setattr(slices_of, "BYTES", 1)
    slices = Slices(str(tmp_path / "slices"))
    slices.write(0, [rebuilt("a", n, n) for n in range(1, 6)], dict)
    checks: list[int] = []
    with open_sink(f"sqlite:///{tmp_path / 'read.db'}", [TABLE], shadow="new") as shadow:
        loader = Loader(shadow, slices, 0, {"v": "shop.v"})
        loader.load(lambda: checks.append(loader.applied.applied))
    assert checks == [0, 2, 4]
    assert loader.applied.applied == 5


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["postgresql", "delta"])
def test_other_stores_take_slices_too(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    slices = Slices(str(tmp_path / "slices"))
    slices.write(1, [rebuilt("a", 3, 1), rebuilt("b", 4, 2)], dict)
    request.getfixturevalue("spark" if kind == "delta" else "postgres")
    folder = f"delta:///{tmp_path / 'delta'}"
    url = folder if kind == "delta" else request.getfixturevalue("database")
    with open_sink(url) as live:
        with open_sink(url, [TABLE], shadow="new") as shadow:
            for _ in range(2):
                Loader(shadow, slices, 0, {"v": "shop.v"}).load(nothing)
            shadow.seek([Position("shop.v", 0, 7)])
        live.switch("new", ["shop.v"])
        assert list(live.rows("rows")) == [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
        assert live.shadows() == []


def test_what_the_store_refuses_is_told(tmp_path: Path) -> None:
    slices = Slices(str(tmp_path / "slices"))
    slices.write(0, [rebuilt("a", 3, "no number")], dict)
    with open_sink(f"sqlite:///{tmp_path / 'read.db'}", [TABLE], shadow="new") as shadow:
        loader = Loader(shadow, slices, 0, {"v": "shop.v"})
        with pytest.raises(Refused, match="no int"):
            loader.load(nothing)
    with open_sink(f"sqlite:///{tmp_path / 'read.db'}", [TABLE], shadow="other") as shadow:
        lenient = Loader(shadow, slices, 0, {"v": "shop.v"}, strict=False)
        lenient.load(nothing)
        assert lenient.applied.dead == 1


def test_who_wants_to_stop_is_heard_between_transactions(tmp_path: Path) -> None:
    slices = Slices(str(tmp_path / "slices"))
    slices.write(0, [rebuilt("a", 3, 1)], dict)
    slices.write(1, [rebuilt("b", 3, 1)], dict)
    asked: list[None] = []

    def stop() -> None:
        asked.append(None)
        if len(asked) == 2:
            raise InterruptedError

    with open_sink(f"sqlite:///{tmp_path / 'read.db'}", [TABLE], shadow="new") as shadow:
        loader = Loader(shadow, slices, 0, {"v": "shop.v"})
        with pytest.raises(InterruptedError):
            loader.load(stop)
        assert shadow.count("rows") == 1
        loader.load(nothing)
        assert (loader.applied.applied, loader.applied.replayed) == (2, 0)
