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
