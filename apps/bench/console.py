"""The bench of the console: what its pages cost in CPU time, with many streams on a broker."""

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import orjson
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from bench import machine
from bench.cluster import Cluster, Sent
from bench.engine import broker_of
from bench.options import Options
from bench.programs import Program, start, worker
from checkout import chromium
from sequitur.local.home import LocalError

PARTITIONS, STUCK = 4, 1_000
"""Of the view's input; and one of so many streams lacks a sequence."""
WATCHED = 10.0
"""Seconds for which a page is looked at, and for which nobody looks."""
APP = """
from topology import Inspector, Topology
from topology.faust import compile

topology = Topology("many")
topology.source("many.in", inspector=Inspector(stream="id", sequence="n"), partitions=4)

@topology.view("board", of="many.in")
def board(event):
    return []

app = compile(topology, group="many")
"""
PAGES = {
    "overview": ("/", "Not well: |All is well"), "view": ("/view?name=board", "adds up"),
    "gaps": ("/gaps", "missing sequence"), "stream": ("/stream?id=s1000", "waiting"),
    "another stream": ("/stream?id=s7", "in order"), "failures": ("/failures", "None"),
    "lateness": ("/lateness", "No view has"),
}  # fmt: skip
"""Page → its address, and what it has when it is there."""


def run(options: Options, console: Console) -> int:
    """Returns the exit status."""
    if (missing := chromium.missing()) is not None:
        remedy = "install it, or run scripts/test as root with apt"
        raise LocalError("the console is not measured", missing, remedy)
    with (
        broker_of(options, console) as broker,
        tempfile.TemporaryDirectory(dir=options.folder, prefix="console-") as place,
    ):
        folder = Path(place)
        (folder / "app.py").write_text(APP)
        environment = {
            **os.environ, "SEQUITUR_BROKER": broker, "SEQUITUR_DATADIR": str(folder / "data"),
            "PYTHONPATH": os.pathsep.join([place, *sys.path]),
        }  # fmt: skip
        cluster = Cluster(broker)
        cluster.create({"many.in": PARTITIONS})
        sent = cluster.fill("many.in", _messages(options.events))
        by_stream = "many.many.in.by-stream"
        with _running("worker", worker("app"), folder, environment):
            _until(lambda: not _left(cluster, "many.in"), f"{sent:,} messages are re-keyed")
            _until(lambda: not _left(cluster, by_stream), "the view has all of them")
            words = [sys.executable, "-m", "sequitur", "console", "-A", "app", "--port", "0"]
            with _running("console", words, folder, environment) as program:
                _until(lambda: "console: http" in program.log.read_text(), "the console answers")
                found = re.search(r"console: (http://\S+)", program.log.read_text())
                assert found is not None
                _measure(found[1].rstrip("/"), program, options.events, console)
    return 0


@contextmanager
def _running(
    name: str, words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[Program]:
    """A program that is stopped in the end."""
    program = start(name, words, folder / f"{name}.log", environment)
    try:
        yield program
    finally:
        program.stop()


def _left(cluster: Cluster, topic: str) -> bool:
    left = cluster.lag("many", topic, PARTITIONS)
    return left is None or left > PARTITIONS  # markers of transactions


def _messages(streams: int) -> Iterator[Sent]:
    for n in range(streams):
        for sequence in (1, 3) if n % STUCK == 0 else (1,):
            yield b"s%d" % n, orjson.dumps({"id": f"s{n}", "n": sequence})


def _until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 3600
    while not true():
        if time.monotonic() > end:
            raise LocalError(what, "not within an hour", "take fewer streams with --n")
        time.sleep(1)


def _measure(url: str, program: Program, streams: int, console: Console) -> None:
    table = Table("page", "first look, CPU s", "again, CPU s", f"{WATCHED:.0f} s open, CPU s")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=chromium.browser_file(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.set_default_timeout(600_000)
        began = _cost(program, page, url, *PAGES["gaps"])  # waits until the changelogs are read
        for name, (path, says) in PAGES.items():
            first = _cost(program, page, url, path, says)
            time.sleep(2)  # an answer is good for that long
            again, before = _cost(program, page, url, path, says), program.cpu
            time.sleep(WATCHED)
            table.add_row(name, f"{first:.2f}", f"{again:.2f}", f"{program.cpu - before:.2f}")
        browser.close()
    time.sleep(2)
    before = program.cpu
    time.sleep(WATCHED)
    console.print(f"{streams:,} streams, {streams // STUCK:,} with a gap. {machine.load()}")
    console.print(f"At the start, until a page is there: {began:.1f} s of CPU")
    console.print(table)
    console.print(f"Nobody looks, for {WATCHED:.0f} s: {program.cpu - before:.2f} s of CPU")
    console.print(f"Memory: {program.memory()[0]:,.0f} MB")


def _cost(program: Program, page: Page, url: str, path: str, says: str) -> float:
    """Seconds of the console's CPU until a page is there."""
    before = program.cpu
    page.goto("about:blank")
    page.goto(url + path)
    page.get_by_text(re.compile(says)).first.wait_for()
    return program.cpu - before
