"""A work folder keeps the plan of one rebuild."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sequitur.rebuild.plan import Plan, Request, WorkFolder, code_of
from stores.db.urls import without_password
from stores.sinks.shadows import checked_shadow, name_bytes
from tests.topology.partition import shop
from topology import Topology
from topology.faust.worker.snapshot import Snapshot
from topology.testing.driver.read_store import LIMITS


def snapshot() -> Snapshot:
    return Snapshot(
        17,
        {"shop.board": {0: 5, 1: 7}},
        {"shop.board": {0: (0, 6), 1: (2, 9)}},
        {"board": {"shop-board-changelog": {0: (0, 4), 1: (1, 5)}}},
        {"orders": {0: (3, 10)}},
    )


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = WorkFolder(tmp_path / "work")
    assert folder.load() is None
    plan = Plan(Request(("board",), "sqlite:///x", ("by-stream",), ("a",), 1, 2), snapshot())
    plan.stage = "follow"
    plan.slices = 32
    plan.dead = 3
    plan.tables = {"board": ("rows", "undeclared")}
    folder.save(plan)
    assert folder.load() == plan
    folder.slices.mkdir()
    folder.clear()
    assert folder.load() is None
    assert not folder.slices.exists()


def test_a_plan_of_an_earlier_version_is_gone_on_with_and_shows_no_password(tmp_path: Path) -> None:
    folder = WorkFolder(tmp_path)
    url = "postgresql://…@host/db?host=/run&password=hush"
    folder.save(Plan(Request(("board",), url, ("by-stream",)), snapshot()))
    kept = json.loads(folder.plan_file.read_text())
    del kept["slices"], kept["dead"], kept["tables"]
    folder.plan_file.write_text(json.dumps(kept))
    found = folder.load()
    assert found is not None
    assert (found.slices, found.dead, found.tables) == (0, 0, {})
    assert found.request.store == without_password(
        "postgresql://me@host/db?host=/run&password=hush"
    )
    folder.save(found)
    assert "hush" not in folder.plan_file.read_text()


def test_a_plan_that_was_cut_off_is_none(tmp_path: Path) -> None:
    folder = WorkFolder(tmp_path)
    folder.plan_file.write_text('{"request": ')
    assert folder.load() is None


def test_every_table_that_can_be_made_can_be_rebuilt() -> None:
    plan = Plan(Request(("board",), "sqlite:///x", ("by-stream",)), snapshot())
    assert checked_shadow(plan.shadow) == plan.shadow
    assert name_bytes(plan.shadow) == name_bytes(None) == 52
    assert {limits.name_bytes for limits in LIMITS.values()} == {52}


OTHER = "def doubled(value): return value * {}"
VERBS = """
from topology import Inspector, Topology
from topology.verbs import count, events, tumbling
from other_code import doubled

def declared():
    shop = Topology("verbs_of_other_code")
    orders = shop.source("orders", inspector=Inspector("id", "n"), keyed=True)
    found = events(shop, orders, time=lambda content: content["t"]).map(doubled).each()
    found.window(tumbling({})).fold(count(), name="totals").to_rows("totals")
    return shop
"""


@pytest.mark.parametrize("there", ["", "shop = declared()"])
def test_verbs_of_other_code_are_another_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str
) -> None:
    """Whose functions are of the topology's module, and of one that it has them from."""

    def code(factor: int, seconds: int) -> str:
        texts = {"other_code": OTHER.format(factor), "shop_code": VERBS.format(seconds) + there}
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
            module = ModuleType(name)
            module.__file__ = str(tmp_path / f"{name}.py")
            monkeypatch.setitem(sys.modules, name, module)
            exec(text, module.__dict__)
        shop: Topology = module.__dict__["declared"]()
        return code_of(shop, shop.views.values())

    assert code(1, 60) == code(1, 60)
    assert len({code(1, 60), code(1, 61), code(2, 60)}) == 3


def test_other_code_is_another_request() -> None:
    topology = shop()
    views = list(topology.views.values())
    assert code_of(topology, views) == code_of(topology, views)
    assert code_of(topology, views) != code_of(topology, [])
