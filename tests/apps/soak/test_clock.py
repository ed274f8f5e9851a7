"""A worker's wall clock leaps when its soak says so; its monotonic clock does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from sequitur.local.home import ROOT
from soak.clock import set_clock

pytestmark = pytest.mark.integration

FOLLOWER = """
import sys, time
from pathlib import Path
from soak.clock import follow
follow(Path(sys.argv[1]))
for _ in sys.stdin:
    print(int(time.time()), time.time_ns() // 10**9, int(time.monotonic()), flush=True)
"""


def test_the_wall_clock_leaps_and_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "clock"
    set_clock(file, 0)
    command = [sys.executable, "-c", FOLLOWER, str(file)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as follower:

        def now() -> tuple[int, ...]:
            assert follower.stdin
            assert follower.stdout
            print("now", file=follower.stdin, flush=True)
            return tuple(map(int, follower.stdout.readline().split()))

        found = []
        for seconds in (0, 100_000, -100_000, 0):
            set_clock(file, seconds)
            found.append(now())
        assert follower.stdin
        follower.stdin.close()
    walls = [wall - found[0][0] for wall, _, _ in found]
    assert [round(wall, -3) for wall in walls] == [0, 100_000, -100_000, 0]
    assert all(abs(wall - ns) <= 1 for wall, ns, _ in found)
    assert found[-1][2] - found[0][2] < 1_000
