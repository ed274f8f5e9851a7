"""A rebuild that lacks records which could not be applied is no good news."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import orjson
import pytest

from sequitur.cli.main import main
from sequitur.rebuild import job as jobs
from sequitur.rebuild.command import status
from sequitur.rebuild.job import Job, Switch
from sequitur.rebuild.plan import Plan, Request, WorkFolder
from stores.sinks import open_sink
from topology import Table, Topology
from topology.faust.worker.snapshot import Snapshot

TABLE = Table("rows", key={"id": str}, columns={"n": int})


def job_of(tmp_path: Path, url: str, switch: Switch = "yes") -> Job:
    app = SimpleNamespace(engine=SimpleNamespace(topology=Topology("shop")))
    folder = WorkFolder(tmp_path / "work")
    return Job(app, Request((), url, ()), url, folder, {}, lambda: False, switch=switch)


def record(n: object) -> bytes:
    change = {"op": "upsert", "table": "rows", "key": {"id": "a"}, "values": {"n": n}}
    return orjson.dumps({"view": "v", "stream": "a", "sequence": 1, "changes": [change]})


@pytest.mark.parametrize(("n", "wanted"), [(1, 0), ("no number", 1)])
@pytest.mark.parametrize("switch", ["yes", "no"])
def test_it_ends_with_bad_news(
    n: object, wanted: int, switch: Switch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = SimpleNamespace(catch_up=lambda: None, switch=lambda: None)
    monkeypatch.setattr(jobs, "Follow", lambda *_: nullcontext(follow))
    url = f"sqlite:///{tmp_path}/read.db"
    job = job_of(tmp_path, url, switch)
    plan = Plan(job.request, Snapshot(0, {}, {}, {}, {}))
    with open_sink(url, [TABLE]) as live, open_sink(url, [TABLE], shadow="new") as shadow:
        shadow.apply([("shop.v", 0, 0, record(n))])
        switched = job.finish(plan, live, shadow, lambda: None)
    assert (job.dead, switched) == (wanted, switch == "yes")
    assert status(job, switched) == wanted


def test_tables_that_differ_are_bad_news_unless_nobody_wanted_to_switch(tmp_path: Path) -> None:
    found = [status(job_of(tmp_path, "", switch), False) for switch in ("same", "no")]
    assert found == [1, 0]


@pytest.mark.parametrize("command", [["shadows"], ["drop", "--shadow", "old"]])
def test_a_store_that_is_not_there_is_not_made_by_looking_at_it(
    command: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "red.db"
    assert main(["rebuild", *command, "--read-store", f"sqlite:///{file}"]) == 2
    assert not file.exists()
