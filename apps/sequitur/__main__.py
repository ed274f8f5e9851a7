"""`python -m sequitur`, and the file that spark-submit is given."""

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
# What a file that is run by its path finds first is its own folder, whose modules are no packages.
if sys.path and sys.path[0] and Path(sys.path[0]).resolve() == _HERE:
    sys.path[0] = str(_HERE.parent)

from sequitur.cli.main import run  # noqa: E402

if __name__ == "__main__":
    run()
