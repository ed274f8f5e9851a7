"""A rebuild that goes on with a plan has what the plan was made with, or makes a new one."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from sequitur.rebuild import job as jobs
from sequitur.rebuild.build import Build
from sequitur.rebuild.job import Job
from sequitur.rebuild.load import Refused
from sequitur.rebuild.plan import Plan, Request, WorkFolder
from sequitur.rebuild.switch import begin_following
from stores.sinks import Sink, open_sink
from tests.topology.partition import shop
from topology.faust.worker.snapshot import Snapshot
from topology.spark import rebuild
from topology.spark.slices import Slices
from topology.view_rebuild import Tally

THEN, NOW = (Snapshot(at, {}, {}, {}, {}) for at in (1, 2))


@dataclass
class Resumed(Job):
    """A job whose read store refuses what is folded.

    built: whether the limits were there when it began to build, and the plan.
    """

    built: list[tuple[bool, Plan]] = field(default_factory=list)

    def limits(self, plan: Plan, check: Callable[[], None]) -> Any:
        self.built.append((self.folder.limits.exists(), plan))
        self.folder.limits.touch()
        return nullcontext()

    def spark(self) -> Any:
        return nullcontext()

    def build(self, *_: Any) -> Any:
        plan = self.built[-1][1]

        def run(shadow: Sink, send: None) -> None:
            if plan.fold:
                raise Refused("a NOT NULL")
            write_notes(shadow, "a", "b")

        return SimpleNamespace(run=run, tallies={"board": Tally(tables=["notes"])})


def write_notes(sink: Sink, *ids: str) -> None:
    """Write rows of a table that is not declared."""
    rows = [{"op": "upsert", "table": "notes", "key": {"id": i}, "values": {"n": 1}} for i in ids]
    body = {"view": "board", "stream": "a", "sequence": 1, "changes": rows}
    assert sink.apply([("shop.board", 0, 0, orjson.dumps(body))]).dead == 0


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resumed:
    async def snapshot(*_: Any) -> Snapshot:
        return NOW

    follow = SimpleNamespace(catch_up=lambda: None, switch=lambda: None)
    monkeypatch.setattr(jobs, "snapshot", snapshot)
    monkeypatch.setattr(jobs, "Follow", lambda *_: nullcontext(follow))
    app = SimpleNamespace(engine=SimpleNamespace(topology=shop()))
    url = f"sqlite:///{tmp_path}/read.db"
    request = Request(("board",), url, ())
    return Resumed(app, request, url, WorkFolder(tmp_path / "work"), {}, lambda: False)


@pytest.mark.parametrize(("limits", "snapshot"), [(True, THEN), (False, NOW)])
def test_a_snapshot_is_gone_on_with_only_if_its_limits_were_read(
    job: Resumed, limits: bool, snapshot: Snapshot
) -> None:
    job.folder.save(Plan(job.request, THEN, fold=False))
    if limits:
        job.folder.limits.touch()
    assert job.run()
    assert [(there, plan.snapshot) for there, plan in job.built][:1] == [(limits, snapshot)]


def test_the_limits_are_kept_for_what_is_made_once_more(job: Resumed) -> None:
    assert job.run()
    assert [(there, plan.snapshot, plan.fold) for there, plan in job.built] == [
        (False, NOW, True),
        (True, NOW, False),
    ]
    assert not job.folder.limits.exists()


def test_tables_that_are_not_declared_are_compared_each_time(job: Resumed) -> None:
    job.switch = "same"
    with open_sink(job.store) as live:
        write_notes(live, "a")
    for _ in range(2):
        assert not job.run()
    left = job.folder.load()
    assert left is not None
    assert left.stage == "follow"


class Killed(BaseException):
    """The rebuild is gone: nothing behind this is done."""


def test_streams_are_in_the_same_slices_however_many_cores_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = shop()
    streams = {f"s{n}" for n in range(100)}

    def frame(build: Build, *_: Any) -> int:
        return build.plan.slices

    def run(slices: int, job: Any) -> dict[str, Tally]:
        """Each task that finds its file leaves its streams out; the first rebuild dies early."""
        made = Slices(job.folder)
        for number in range(slices):
            if made.tally(number) is None:
                its = [s for s in streams if int(s[1:]) % slices == number]
                built.update(its)
                made.write(number, [], dict)
            if number == dies_after:
                raise Killed
        return {"board": Tally()}

    monkeypatch.setattr(Build, "frame", frame)
    monkeypatch.setattr(rebuild, "run", run)
    folder, built = WorkFolder(tmp_path), set[str]()
    folder.save(Plan(Request(("board",), "sqlite:///x", ()), THEN))

    def go_on(cores: int) -> None:
        plan = folder.load()
        assert plan is not None
        context = SimpleNamespace(
            defaultParallelism=cores,
            statusTracker=lambda: SimpleNamespace(getActiveJobsIds=list),
            cancelAllJobs=lambda: None,
        )
        conf = SimpleNamespace(set=lambda *_: None)
        spark: Any = SimpleNamespace(sparkContext=context, conf=conf)
        limits: Any = None
        Build(spark, topology, limits, plan, folder, {}, lambda: None).run(None)

    dies_after = 4
    with pytest.raises(Killed):
        go_on(cores=4)
    dies_after = -1
    go_on(cores=2)
    assert built == streams


def test_slices_of_a_plan_that_does_not_say_how_many_are_not_gone_on_with(job: Resumed) -> None:
    job.folder.save(Plan(job.request, THEN, fold=False))
    job.folder.limits.touch()
    job.folder.slices.mkdir()
    assert job.run()
    assert job.built[0][1].snapshot == NOW


def test_one_that_was_killed_when_it_had_just_been_refused_is_made_once_more(job: Resumed) -> None:
    job.folder.save(Plan(job.request, THEN, shadow="new"))
    job.folder.limits.touch()
    with open_sink(job.store, shadow="new") as shadow:
        assert shadow.apply([("shop.board", -1, 0, b"no record")]).dead == 1
    assert job.run()
    assert [plan.fold for _, plan in job.built] == [False]


def test_what_is_dead_is_known_to_one_that_was_killed_when_it_began_to_follow(
    job: Resumed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(shadow: Sink, plan: Plan) -> None:
        begin_following(shadow, plan)
        raise Killed

    snapshot = Snapshot(1, {"shop.board": {0: 0}}, {}, {}, {})
    job.folder.save(Plan(job.request, snapshot, shadow="new", fold=False))
    job.folder.limits.touch()
    with open_sink(job.store, shadow="new") as shadow:
        assert shadow.apply([("shop.board", -1, 0, b"no record")]).dead == 1
    monkeypatch.setattr(jobs, "begin_following", die)
    with pytest.raises(Killed):
        job.run()
    monkeypatch.setattr(jobs, "begin_following", begin_following)
    assert job.run()
    assert job.dead == 1
