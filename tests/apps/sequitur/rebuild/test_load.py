"""Slices into a shadow: each record once, however often the loading begins anew."""

from pathlib import Path

import orjson
import pytest

from sequitur.rebuild.load import Loader, Refused
from stores.sinks import Position, open_sink
from topology import Table
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
        assert loader.applied.applied == 3
        assert sent == [message]
        again = Loader(shadow, slices, 0, {"v": "shop.v"})
        again.load(nothing)
        assert (again.applied.applied, again.applied.replayed) == (0, 3)
        # Another source's slices are others.
        other = Loader(shadow, slices, 1, {"v": "shop.other"})
        other.load(nothing)
        assert other.applied.applied == 3
        assert shadow.count("rows") == 3


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

    def stop() -> None:
        raise InterruptedError

    with open_sink(f"sqlite:///{tmp_path / 'read.db'}", [TABLE], shadow="new") as shadow:
        with pytest.raises(InterruptedError):
            Loader(shadow, slices, 0, {"v": "shop.v"}).load(stop)
        assert shadow.count("rows") == 0
