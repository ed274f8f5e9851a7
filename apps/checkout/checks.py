"""Run every check of the project and say honestly how it went: `scripts/test`."""

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from checkout import chromium, rabbitmq
from checkout.console import say
from sequitur.cli.signals import interrupted_by
from sequitur.local.home import ROOT
from sequitur.local.process import spawn

# What pytest says at the very end: === 12 passed, 1 skipped in 3.45s ===
_CLOSING = re.compile(
    r"(=+ )?(no tests ran|\d+ [a-z ]+(, \d+ [a-z ]+)*) in [\d.]+s( \([^()]*\))?( =+)?"
)
_COLOR = re.compile(r"\x1b\[[\d;]*m")
_CHECKS = {
    "format": ["ruff", "format", "--check", "--output-format", "concise", "."],
    "lint": ["ruff", "check", "--output-format", "concise", "."],
    "types": ["mypy"],
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a check ended: its exit status, its duration in seconds, and what it wrote."""

    name: str
    status: int
    seconds: float
    output: str = ""
    closing: str = ""

    @property
    def line(self) -> str:
        word = "passed" if self.status == 0 else "FAILED"
        return f"  {self.name:<8} {word}  {self.seconds:5.1f} s  {self.closing}".rstrip()


def main(arguments: list[str] | None = None) -> int:
    """Run the checks and return the exit status: 0 only if every one of them passed."""
    parser = argparse.ArgumentParser(
        prog="scripts/test",
        description=__doc__,
        epilog="All other arguments go to pytest, e.g. scripts/test -k ring tests/topology.",
    )
    parser.add_argument(
        "--fast",
        action="store_true",
        help="leave out the tests that are long or need a broker, a server, Spark or many "
        "processes, and two thirds of the examples",
    )
    options, others = parser.parse_known_args(arguments)
    interrupted_by(signal.SIGTERM)
    # What tests start imports the project again and again: compiled once is a quarter of that.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if options.fast:
        os.environ["SEQUITUR_FAST"] = "1"
    else:
        rabbitmq.install()
        chromium.install()
    with ThreadPoolExecutor(max_workers=1) as beside:
        checks = [beside.submit(_check, name, command) for name, command in _CHECKS.items()]
        tests = _pytest(pytest_arguments(options.fast) + others)
        return _report([*map(Future.result, checks), tests], options.fast)


def closing_line(line: str) -> str:
    """Return the line without its colours if it is pytest's closing line, else an empty string."""
    plain = _COLOR.sub("", line).strip()
    return plain if _CLOSING.fullmatch(plain) else ""


def pytest_arguments(fast: bool) -> list[str]:
    """How pytest is run: side by side, a file in one process, and seen to move."""
    # What waits leaves room for more workers than cores; servers and Spark take cores of their own.
    arguments = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
    arguments += ["-p", "tests.progress", "-p", "tests.spread"]
    arguments += ["-o", "console_output_style=classic"]
    return [*arguments, "-m", "not integration and not long"] if fast else arguments


def _report(outcomes: list[Outcome], fast: bool) -> int:
    failed = [outcome for outcome in outcomes if outcome.status]
    for outcome in failed:
        if outcome.output:
            say(f"\n--- {outcome.name} ---\n{outcome.output}")
    say("\nSummary")
    for outcome in outcomes:
        say(outcome.line)
    if fast:
        say(
            "  --fast: left out what is long, or needs a broker, a server, Spark or many processes,"
        )
        say("  and two thirds of the examples")
    else:
        for missing in filter(None, (rabbitmq.missing(), chromium.missing())):
            say(f"  {missing}")
    closing = outcomes[-1].closing or "pytest did not come to its end"
    # In the very last line, too: no skipped test says how much it stands for.
    unseen = None if fast else chromium.missing()
    say(f"\n{closing}" + (f". {unseen}" if unseen else ""))
    return 1 if failed else 0


def _check(name: str, command: list[str]) -> Outcome:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Outcome(name, done.returncode, time.monotonic() - began, done.stdout.rstrip())


def _pytest(arguments: list[str]) -> Outcome:
    """Run pytest, passing on what it writes as it comes; Ctrl-C lets it end in order."""
    began = time.monotonic()
    color = "yes" if sys.stdout.isatty() else "no"
    command = [sys.executable, "-m", "pytest", f"--color={color}", *arguments]
    reading, writing = os.pipe()
    process = spawn(command, output=writing, cwd=ROOT)
    os.close(writing)
    closing = ""
    with os.fdopen(reading, errors="replace") as output:
        while True:
            try:
                line = output.readline()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
                continue
            if not line:
                break
            print(line, end="", flush=True)
            closing = closing_line(line) or closing
    return Outcome("tests", process.wait(), time.monotonic() - began, closing=closing)


if __name__ == "__main__":
    sys.exit(main())
