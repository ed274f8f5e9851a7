"""The core of units decides without I/O, without a clock, and without a framework."""

import ast
from pathlib import Path

import pytest

from sequitur.local.home import ROOT

UNITS = ROOT / "stores" / "units"
CORE = [
    UNITS / "errors.py",
    UNITS / "naming.py",
    *sorted((UNITS / "queue").glob("*.py")),
    *sorted((UNITS / "routing").glob("*.py")),
]
ALLOWED = {"bisect", "collections", "dataclasses", "enum", "hashlib", "heapq", "typing"}


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.relative_to(UNITS).as_posix())
def test_it_imports_nothing_that_has_io_or_a_clock(path: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
    own = {each for each in imported if each.startswith(("stores.units.", "topology."))}
    assert {each.split(".")[0] for each in imported - own} <= ALLOWED
    assert {each for each in own if each.startswith("topology.")} <= {
        "topology.model.printable",
        "topology.ordered_commit.offset_ranges",
    }
