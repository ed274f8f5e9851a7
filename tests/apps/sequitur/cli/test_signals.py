"""Ctrl-C ends what runs, whoever started it and how."""

import signal
import subprocess
import sys

import pytest

from sequitur.local.home import ROOT

WAITS = """\
import signal, sys, time
from sequitur.cli.signals import interrupted_by
interrupted_by(signal.SIGTERM)
try:
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    sys.exit(7)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_was_started_with_sigint_ignored_ends_by_it(number: signal.Signals) -> None:
    command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", WAITS]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            process.send_signal(number)
            assert process.wait(30) == 7
        finally:
            process.kill()


DROPPED = """\
import os, signal, sys, time
from sequitur.cli.signals import check_interrupted, interrupted_by
interrupted_by()

class Collected:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

try:
    Collected()
    for _ in range(600):
        check_interrupted()
        time.sleep(0.1)
except KeyboardInterrupt as stopped:
    sys.exit(100 + stopped.args[0])
"""


def test_a_signal_that_comes_while_something_is_collected_is_not_lost() -> None:
    done = subprocess.run([sys.executable, "-c", DROPPED], cwd=ROOT, capture_output=True, text=True)
    assert "Exception ignored" in done.stderr
    assert done.returncode == 100 + signal.SIGINT
