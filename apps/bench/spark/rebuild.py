"""A rebuild of the flights, against the time that worker and materializer took for them."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from uuid import uuid4

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from bench.bench import FULL, PARTITIONS, SETTLE, Bench, Wrong, sample
from bench.flight_rows import clock_times
from bench.goals import Goal, ratio
from bench.programs import Program, emptied, start, worker
from bench.results import Sample
from bench.scenarios.scenario import Column, Scenario
from sequitur.flights.movements import Messages, movements, source_table
from sequitur.flights.network import Network
from sequitur.flights.topology import SOURCE
from sequitur.local.process import tail
from stores.db.engines import open_engine

VIEWS = ("departure_board", "aircraft", "carrier_delay")
LIVE = "worker and materializer"
CORES = {1: "rebuild, 1 core", 2: "rebuild, 2 cores"}
PATIENCE = 1800.0
_EVENTS = re.compile(r"view (\w+): ([\d,]+) events of [\d,]+ streams in ([\d.]+) s:")
_SAME = re.compile(r"table (\w+): .*, all the same$", re.MULTILINE)


class Flights:
    """Movements in a topic, what is made of them live, and rebuilds of that."""

    def __init__(self, bench: Bench, url: str = "") -> None:
        self.bench = bench
        self.folder = emptied(bench.folder / "data" / f"flights-{uuid4().hex[:8]}")
        self.group = f"bench-{self.folder.name}"
        self.url = url or f"sqlite:///{self.folder}/read.db"
        self._store = open_engine(self.url)
        table = source_table()
        # All of them, unless less is asked for than the goal is stated at.
        moves = movements(table, bench.events if bench.events < FULL else None)
        # Nothing is lost: the time that gaps are waited for is not what is measured.
        delivery = Network(lost=0.0).deliver(table, moves)
        messages = Messages(table, moves)
        bench.cluster.create({SOURCE: PARTITIONS})
        arrivals = zip(delivery.arrivals["index"], delivery.arrivals["station"], strict=True)
        self.messages = [(station.encode(), messages[int(at)]) for at, station in arrivals]
        self.times = clock_times(delivery.arrivals)
        self.events = len(moves)
        self.outputs = 2 * len(moves) + int((moves["kind"] == "OUT").sum())

    def live(self) -> dict[str, float]:
        """Everything through a worker and a materializer, which wait for it, to the last row."""
        command = [sys.executable, "-m", "sequitur", "materialize"]
        command += ["--topology", "sequitur.flights.topology:topology", "--read-store", self.url]
        command += ["--broker", self.bench.cluster.broker]
        command += ["--checkpoint", str(self.folder / "checkpoint")]
        with (
            self._program("materializer", command) as materializer,
            self._program("worker", worker("sequitur.flights")) as engine,
        ):
            with self.bench.cluster.held_back(SOURCE, self.messages, self.times):
                self._until(lambda: self._ready(materializer), materializer, engine)
                time.sleep(SETTLE)
            began, before = time.monotonic(), _used(engine, materializer)
            self._until(lambda: self._applied() >= self.outputs, materializer, engine)
            seconds = time.monotonic() - began
            used = {name: cpu - before[name] for name, cpu in _used(engine, materializer).items()}
        each = 1e6 / self.events
        return {"rate": self.events / seconds, **{name: cpu * each for name, cpu in used.items()}}

    def rebuild(self, cores: int) -> dict[str, float]:
        """A rebuild of all views that is compared, and then forgotten."""
        command = [
            sys.executable,
            "-m",
            "sequitur",
            "rebuild",
            "run",
            "--app",
            "sequitur.flights",
        ]
        command += [word for view in VIEWS for word in ("--view", view)]
        command += ["--read-store", self.url, "--work", str(self.folder / "work")]
        command += ["--cores", str(cores), "--switch", "no", "--fresh"]
        began = time.monotonic()
        with self._program(f"rebuild-{cores}", command) as program:
            _, seconds = finished(program, "carrier_delay", began + PATIENCE)
        whole = time.monotonic() - began
        if len(_SAME.findall(program.log.read_text(errors="replace"))) != len(VIEWS):
            raise Wrong(f"the rebuild is not as the live tables are: {tail(program.log)}")
        return {"rate": self.events / seconds, "whole": whole}

    @contextmanager
    def _program(self, name: str, command: list[str]) -> Iterator[Program]:
        environment: Mapping[str, str] = {
            "SEQUITUR_BROKER": self.bench.cluster.broker,
            "SEQUITUR_GROUP": self.group,
            "SEQUITUR_DATADIR": str(self.folder / name),
        }
        log = self.bench.folder / "logs" / f"{self.folder.name}-{name}.log"
        program = start(name, command, log, environment)
        try:
            yield program
        finally:
            program.stop()

    def _ready(self, materializer: Program) -> bool:
        """Whether the worker has its partitions, and the materializer looks for records."""
        reads = "materializer: reading" in materializer.log.read_text(errors="replace")
        return reads and self.bench.cluster.members(self.group) == 1

    def _applied(self) -> int:
        """How many records are in the store."""
        with suppress(DBAPIError), self._store.connect() as store:
            found = store.execute(text("SELECT coalesce(sum(applied), 0) FROM _positions"))
            return int(found.scalar_one())
        return 0

    def _until(self, reached: Callable[[], bool], *programs: Program) -> None:
        """Wait for something. Raises ChildFailed and TimeoutError."""
        deadline = time.monotonic() + PATIENCE
        while not reached():
            for program in programs:
                program.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"not done in {PATIENCE:.0f} s: {tail(programs[0].log)}")
            time.sleep(0.05)

    def forget(self) -> None:
        """Delete the topics, and what was made."""
        self._store.dispose()
        self.bench.cluster.delete("flights.")
        self.bench.cluster.delete(self.group)
        emptied(self.folder).rmdir()


def _used(engine: Program, materializer: Program) -> dict[str, float]:
    """CPU seconds so far: of the worker, and of the materializer's Python and its JVM."""
    return {
        "worker": engine.cpu,
        "python": materializer.cpu,
        "jvm": materializer.cpu_below,
    }


def finished(rebuild: Program, view: str, deadline: float) -> tuple[int, float]:
    """The events of a view and the seconds they took, at its end. Raises Wrong, TimeoutError."""
    if not rebuild.ended(deadline):
        raise TimeoutError(f"no rebuild in {PATIENCE:.0f} s: {tail(rebuild.log)}")
    said = _EVENTS.findall(rebuild.log.read_text(errors="replace"))
    for name, events, seconds in said:
        if name == view:
            return int(events.replace(",", "")), float(seconds)
    raise Wrong(f"view {view} was not rebuilt: {tail(rebuild.log)}")


def run(bench: Bench) -> Iterator[Sample]:
    """Live once, then each rebuild."""
    flights = Flights(bench)
    try:
        live = sample(LIVE, flights.live)
        yield live
        if not live.problem:
            for cores, subject in CORES.items():
                yield sample(subject, partial(flights.rebuild, cores))
    finally:
        flights.forget()


SCENARIO = Scenario(
    "rebuild",
    "Rebuilding the three views of the flights, events/s",
    "All 656,000 movements of aircraft come at once, some late, some twice, none lost. Live is one"
    " worker and one materializer into SQLite, which share the machine with the broker and wait for"
    " them; to the last row. The rebuild reads the by-stream topic on so many Spark cores, writes"
    " into shadow tables of the same store, and is compared with the live tables row by row; a"
    " sample in which a row differs is void. Its rate is without the start of Spark, during which"
    " it reads how far the live views are; `whole command` is with that, and with the comparing.",
    (
        Column("events/s", "rate"),
        Column("× live", "rate", 2, LIVE),
        Column("whole command, s", "whole", 1),
    ),
    run,
)

GOALS = (
    Goal(
        "rebuild of the flights on 2 cores, × live",
        "rebuild",
        ratio(CORES[2], LIVE, "rate"),
        5,
    ),
)
