"""The core knows nothing of Spark."""

import subprocess
import sys

from sequitur.local.home import ROOT

PROGRAM = """
import sys
import topology, topology.testing
import topology.spark.step, topology.spark.cells, topology.spark.supported, topology.spark.clock
assert not [name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j", "faust")]
"""


def test_the_core_and_the_step_import_no_runtime() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
