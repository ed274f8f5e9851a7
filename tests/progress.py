"""A run's progress, for whoever waits for it: `-p tests.progress` beside xdist's `-n`.

A line for each long or failed test as it ends, a line now and then with what is done and what runs,
and at the end the longest files, a table of the parts that the tests are of, and how busy the
machine was: where it was not, more tests may run side by side.
"""

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest

_LONG = 5.0  # seconds from which a test that passes has a line of its own
_EVERY = 15.0  # seconds between two lines with what runs
_FILES = 25  # how many of the longest are told at the end
_PART = "part"
_Status = tuple[str, str, str]
# What an integration test needs, by the fixtures that it uses; one that uses none starts processes.
_PARTS = {
    "spark": "Spark",
    "broker": "broker",
    "postgres": "databases",
    "rabbitmq_server": "RabbitMQ",
    "redis_server": "databases",
}


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(Progress(_EVERY))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.user_properties.append((_PART, _part(item)))


def _part(item: pytest.Item) -> str:
    if item.get_closest_marker("integration") is None:
        return "fast"
    used = getattr(item, "fixturenames", ())
    return next((part for name, part in _PARTS.items() if name in used), "processes")


def busy_seconds() -> float:
    """What all cores together have worked since the machine started; 0.0 where nobody tells."""
    with suppress(OSError, ValueError):
        of_all = Path("/proc/stat").read_text().split(None, 8)[1:8]
        user, nice, system, _, _, *interrupts = map(int, of_all)
        return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
    return 0.0


class Progress:
    """In the process that hands tests to xdist's workers: what they do, in place of dots."""

    def __init__(self, every: float) -> None:
        self._began = time.monotonic()
        self._busy = busy_seconds()
        self._running: dict[str, float] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)  # by test, then by part
        self._files: Counter[str] = Counter()  # milliseconds
        self._ends: dict[str, Counter[str]] = {}
        self._done = 0
        self._over = Event()
        self._every = every
        self._session: pytest.Session | None = None

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session
        self._tell("the workers are collecting the tests")
        Thread(target=self._tell_now_and_then, daemon=True).start()

    def pytest_sessionfinish(self) -> None:
        self._over.set()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_report_teststatus(self) -> Generator[None, _Status, _Status]:
        category, _, _ = yield
        return category, "", ""  # counted, and no dot

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        part = str(dict(report.user_properties).get(_PART, "fast"))
        self._seconds[report.nodeid] += report.duration
        self._seconds[part] += report.duration
        self._files[report.nodeid.partition("::")[0]] += round(report.duration * 1000)
        ends = self._ends.setdefault(part, Counter())
        if report.when == "call" or not report.passed:
            ends[report.outcome] += 1
        if report.failed:
            self._tell(f"FAILED {report.nodeid} ({report.when}, {report.duration:.1f} s)")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._done += 1
        self._running.pop(nodeid, None)
        if (seconds := self._seconds.pop(nodeid, 0.0)) >= _LONG:
            self._tell(f"{seconds:5.1f} s  {nodeid}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._ends:
            return
        terminalreporter.section("longest files, seconds")
        for file, spent in self._files.most_common(_FILES):
            terminalreporter.write_line(f"{spent / 1000:5.0f}  {file}")
        terminalreporter.section("parts")
        row = "{:<10} {:>7} {:>7} {:>8} {:>8}".format
        terminalreporter.write_line(row("", "passed", "failed", "skipped", "seconds"))
        for part, ends in sorted(self._ends.items()):
            seconds = f"{self._seconds[part]:,.0f}"
            words = (ends[outcome] for outcome in ("passed", "failed", "skipped"))
            terminalreporter.write_line(row(part, *words, seconds))
        if (worked := busy_seconds() - self._busy) > 0:
            cores = worked / (time.monotonic() - self._began)
            terminalreporter.write_line(f"busy: {cores:.2f} of {os.cpu_count()} cores")

    def _tell_now_and_then(self) -> None:
        while not self._over.wait(self._every):
            now = time.monotonic()
            running = sorted(self._running.copy().items(), key=lambda each: each[1])
            tests = ", ".join(f"{nodeid} ({now - since:.0f} s)" for nodeid, since in running)
            self._tell(f"running: {tests}" if tests else "nothing runs now")

    def _tell(self, what: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        of = self._session.testscollected if self._session is not None else 0
        sys.stdout.write(f"[{self._done:>4} of {of}, {minutes}:{seconds:02}] {what}\n")
        sys.stdout.flush()
