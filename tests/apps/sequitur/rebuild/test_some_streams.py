"""Some streams in the middle of live tables: what they write now is there, and nothing else."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from sequitur.cli.main import main
from sequitur.rebuild import job as jobs
from sequitur.rebuild import some_streams, switch
from sequitur.rebuild.build import Build
from sequitur.rebuild.command import status
from sequitur.rebuild.job import Job
from sequitur.rebuild.plan import Plan, Request, WorkFolder
from sequitur.rebuild.some_streams import Partial
from stores.sinks import NotYet, StoreError, open_sink
from tests.topology.deliveries import Arrival, records
from tests.topology.partition import shop
from topology import Event, Upsert
from topology.faust.worker.snapshot import Snapshot
from topology.spark import rebuild as spark_rebuild
from topology.spark.slices import Slices
from topology.view_rebuild import HistoryPart, Rebuild, Tally
from topology.view_rebuild.replacement import Replacement

ROWS: list[dict[str, Any]] = [
    {"op": "upsert", "table": "board", "key": {"id": stream}, "values": {"old": True}}
    for stream in "ab"
]
OUTPUTS = [
    orjson.dumps({"view": "board", "stream": row["key"]["id"], "sequence": 2, "changes": [row]})
    for row in ROWS
]


def silent(event: Event) -> Iterator[Upsert]:
    """What wrote a row of each stream before, and writes none of `a` now."""
    if event.stream != "a":
        yield Upsert("board", key={"id": event.stream}, values={"new": True})


class Without(Job):
    """A job without Kafka and Spark."""

    @property
    def options(self) -> dict[str, str]:
        return {}

    def limits(self, plan: Plan, check: Callable[[], None]) -> Any:
        self.folder.limits.touch()
        return nullcontext()

    def spark(self) -> Any:
        context = SimpleNamespace(defaultParallelism=1)
        conf = SimpleNamespace(set=lambda *_: None)
        return nullcontext(SimpleNamespace(sparkContext=context, conf=conf))


def run(frame: None, job: Any, streams: Iterable[str] = "ab") -> dict[str, Tally]:
    """A task of Spark's."""
    (source,) = job.topology.sources.values()
    rebuild = Rebuild(job.topology, source, job.views, job.at, fold=job.fold, every=job.every)
    parts = [
        HistoryPart(s, [("board", s, b"2")], records([Arrival(s, n, 0) for n in (0, 1)]))
        for s in streams
    ]
    Slices(job.folder).write(0, rebuild.run(parts), dict)
    return rebuild.finish()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    async def snapshot(*_: Any) -> Snapshot:
        return Snapshot(1, {}, {}, {}, {})

    def find_written(partial: Partial, build: Build) -> None:
        for (_, stream), found in partial._streams.items():
            found.wrote([row for row in ROWS if row["key"] == {"id": stream}])

    monkeypatch.setattr(jobs, "snapshot", snapshot)
    monkeypatch.setattr(spark_rebuild, "run", run)
    monkeypatch.setattr(Build, "frame", lambda *_: None)
    monkeypatch.setattr(Build, "_at", lambda _: "")
    monkeypatch.setattr(Partial, "_find_written", find_written)
    app = SimpleNamespace(engine=SimpleNamespace(topology=shop(handler=silent)))
    url = f"sqlite:///{tmp_path}/read.db"
    request = Request(("board",), url, (), streams=("a", "b"))
    return Without(app, request, url, WorkFolder(tmp_path / "work"), {}, lambda: False)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The live tables are as far as the output topic was."""
    monkeypatch.setattr(Partial, "_replace", lambda self: self._apply([], []))


@pytest.mark.usefixtures("at_once")
def test_old_rows_of_a_stream_that_writes_nothing_now_go(job: Job) -> None:
    with open_sink(job.store) as live:
        live.apply(("shop.board", 0, at, value) for at, value in enumerate(OUTPUTS))
        assert len(list(live.rows("board"))) == 2
    assert status(job, job.run()) == 0
    with open_sink(job.store) as live:
        assert list(live.rows("board")) == [{"id": "b", "new": True}]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("known", [("a",), ()])
def test_a_stream_that_is_nowhere_is_bad_news(
    job: Job,
    known: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(spark_rebuild, "run", lambda frame, of: run(frame, of, known))
    job.request = replace(job.request, streams=(*known, "typo"))
    assert status(job, job.run()) == 1
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.split()[1] for text in told] == ["'typo'"]


@pytest.mark.parametrize("words", [["--switch", "no"], ["--switch", "same"], ["--hashes"]])
@pytest.mark.parametrize("some", [["--stream", "a"], ["--since", "2026-03-01"]])
def test_what_is_for_a_whole_view_is_refused(
    some: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = "sqlite:///r.db"
    given = ["--app", "sequitur.flights", "--view", "aircraft", "--read-store", store]
    assert main(["rebuild", "run", *given, *some, *words]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("views", [("board",), ("another",)])
def test_a_rebuild_that_waits_for_its_switch_in_the_folder_stays(
    job: Job, views: tuple[str, ...]
) -> None:
    waiting = Plan(Request(views, job.store, ()), Snapshot(1, {}, {}, {}, {}), stage="follow")
    job.folder.save(waiting)
    with open_sink(job.store, shadow=waiting.shadow) as shadow:
        shadow.apply([("shop.board", 0, 0, OUTPUTS[0])])
    with pytest.raises(StoreError, match=f"has a rebuild of {views[0]} that is not done"):
        job.run()
    assert job.folder.load() == waiting
    with open_sink(job.store) as live:
        assert live.shadows() == [waiting.shadow]
        job.fresh = True
        assert job.run()
        assert live.shadows() == []


class FakeFollower:
    """Is at the end of the output topic from the beginning."""

    def __init__(self, *lost: tuple[str, int]) -> None:
        self._lost = list(lost)
        self.closed = False

    def lost(self) -> list[tuple[str, int]]:
        return self._lost

    def positions(self) -> dict[tuple[str, int], int]:
        return {("shop.board", 0): 1}

    def take(self) -> list[Any]:
        return []

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> "FakeFollower":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def put_in(job: Job, follower: FakeFollower, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace streams in live tables that have two outputs."""
    looks = iter(range(10))

    def check() -> None:
        next(looks)

    monkeypatch.setattr(switch, "Follower", lambda *_: follower)
    plan = Plan(job.request, Snapshot(1, {"shop.board": {0: 0}}, {}, {}, {}))
    with open_sink(job.store) as live:
        live.apply(("shop.board", 0, at, value) for at, value in enumerate(OUTPUTS))
        Partial(job, plan, live, check)._replace()


def test_outputs_that_retention_took_are_not_passed_over(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = FakeFollower(("shop.board", 0))
    with pytest.raises(StoreError, match="has lost outputs by retention"):
        put_in(job, follower, monkeypatch)
    assert follower.closed


def test_outputs_that_do_not_come_are_not_waited_for_for_ever(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(some_streams, "PATIENCE", 0.0)
    with pytest.raises(NotYet, match="partition 0 was not read up to offset 2"):
        put_in(job, FakeFollower(), monkeypatch)


def test_of_what_is_followed_only_the_chosen_streams_is_kept(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Following(FakeFollower):
        at = 1

        def positions(self) -> dict[tuple[str, int], int]:
            return {("shop.board", 0): self.at}

        def take(self) -> list[Any]:
            self.at = 6
            return [("shop.board", 0, n, value) for n, value in enumerate(said, 1)]

    change = {"op": "upsert", "table": "board", "key": {"id": "a"}, "values": {"since": 1}}
    record = {"view": "board", "stream": "a", "sequence": 3, "changes": [change]}
    other = {**record, "stream": "not chosen"}
    said = [None, b"no JSON", b"[1]", *map(orjson.dumps, (other, record))]
    kept: list[Any] = []

    def replaced(self: Partial, pending: list[Any], positions: list[Any]) -> None:
        kept.extend(pending)
        apply(self, pending, positions)

    apply = Partial._apply
    monkeypatch.setattr(Partial, "_apply", replaced)
    monkeypatch.setattr(switch, "Follower", lambda *_: Following())
    plan = Plan(job.request, Snapshot(1, {"shop.board": {0: 0}}, {}, {}, {}))
    with open_sink(job.store) as live:
        live.apply(("shop.board", 0, at, value) for at, value in enumerate([*OUTPUTS, *said[:-2]]))
        live.apply([("shop.board", 0, 5, said[-1])])
        partial = Partial(job, plan, live, lambda: None)
        partial._streams["shop.board", "a"] = Replacement("board", "a")
        partial._streams["shop.board", "a"].wrote(ROWS[:1])
        partial._replace()
        assert {"id": "a", "since": 1} in list(live.rows("board"))
    assert len(kept) == 1
