"""Ctrl-C ends what runs, whoever started it and how."""

import signal
import subprocess
import sys

import pytest

from sequitur.local.home import ROOT

WAITS = """\
import signal, sys, time
from sequitur.cli.signals import check_interrupted, interrupted_by
interrupted_by(signal.SIGTERM)
try:
    print("up", flush=True)
    for _ in range(6000):
        check_interrupted()
        time.sleep(0.1)
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
            assert process.wait(120) == 7
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


WHILE_POPEN_HAS_ITS_LOCK = """\
import os, signal, subprocess, sys
from sequitur.cli.signals import check_interrupted, note_signals
note_signals(signal.SIGTERM)
child = subprocess.Popen(["sleep", "600"])
lock = child._waitpid_lock

class Interrupted:
    def acquire(self, *how):
        taken = lock.acquire(*how)
        os.kill(os.getpid(), signal.SIGTERM)
        return taken

    release, __enter__, __exit__ = lock.release, lock.__enter__, lock.__exit__

child._waitpid_lock = Interrupted()
try:
    child.poll()
    check_interrupted()
except KeyboardInterrupt as stopped:
    child.kill()
    child.wait()
    sys.exit(128 + stopped.args[0])
"""

WHILE_AN_EVENT_HAS_ITS_LOCK = """\
import logging, os, signal, sys, threading
from sequitur.cli.signals import take_signals
stop = threading.Event()
take_signals(stop, logging.getLogger(), "stopping")
with stop._cond:  # as in Event.wait
    os.kill(os.getpid(), signal.SIGTERM)
sys.exit(143 if stop.wait(240) else 1)
"""


@pytest.mark.parametrize("code", [WHILE_POPEN_HAS_ITS_LOCK, WHILE_AN_EVENT_HAS_ITS_LOCK])
def test_a_signal_that_comes_while_a_lock_is_held_does_not_keep_the_process_from_ending(
    code: str,
) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=240)
    assert done.returncode == 128 + signal.SIGTERM
