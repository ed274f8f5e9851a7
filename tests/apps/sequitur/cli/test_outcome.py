"""How processes end that cannot do what they should: status 2 and one line, never a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sequitur.local.ports import HOST, free_port
from soak.ended import run
from topology.model.extras import pip_install

pytestmark = pytest.mark.integration

STORE = ["--read-store", "sqlite:///read.db"]
CHECKPOINT = ["--checkpoint", "checkpoint"]
QUICK = [
    word
    for option in ("default.api.timeout.ms=1000", "request.timeout.ms=900", "max.block.ms=1000")
    for word in ("--kafka-option", f"kafka.{option}")
]
_CLOSED = "import sys; sys.modules[{0!r}] = None; from sequitur.cli.main import run; run()"


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = f"{folder}:{os.environ['PYTHONPATH']}"
    return run([sys.executable, *command], 300, folder, {**os.environ, "PYTHONPATH": path})


def _one_line(done: subprocess.CompletedProcess[str]) -> str:
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "Traceback" not in said
    assert "\tat " not in said
    lines = [line for line in said.splitlines() if " ERROR " in line or "error: " in line]
    assert len(lines) == 1, said
    return lines[0]


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("pyspark", ["materialize", "--topics", "a", *STORE, *CHECKPOINT], "spark"),
        ("pyspark", ["live", "--topology", "zlive:shop", *CHECKPOINT], "spark"),
        ("pyspark", ["rebuild", "export", "--topic", "a", "--to", "x"], "spark"),
        ("psycopg", ["two-phase", "list", "--decisions", "postgresql://host/db", "--participant", "a=sqlite:///x"],
         "postgres"),
        ("psycopg", ["inbox", "counts", "--database", "postgresql://host/db"],
         "postgres"),
    ],
)  # fmt: skip
def test_a_package_that_is_not_installed_is_named_with_its_extra(
    package: str, arguments: list[str], extra: str, tmp_path: Path
) -> None:
    (tmp_path / "zlive.py").write_text(
        "from topology import *\nshop = Topology('shop')\n"
        "orders = shop.source('o', inspector=Inspector(stream='id', sequence='n'))\n"
        "@shop.view('board', of=orders)\ndef board(event):\n    yield from ()\n"
    )
    line = _one_line(_run(tmp_path, "-c", _CLOSED.format(package), *arguments))
    assert pip_install(extra) in line


@pytest.mark.parametrize("command", [["materialize", *STORE], ["live"]])
def test_a_checkpoint_that_is_none_is_told(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "shop.py").write_text("")
    what = ["--topology", "sequitur.flights:topology"]
    for place, says in (("file", "is no folder"), ("folder", "no checkpoint of Spark")):
        line = _one_line(_run(tmp_path, "-m", "sequitur", *command, *what, "--checkpoint", place))
        assert says in line


@pytest.mark.parametrize(
    "command",
    [
        ["sequitur", "materialize", "--topics", "a", *STORE, *CHECKPOINT, *QUICK],
        ["sequitur", "live", "--topology", "sequitur.flights:topology", *CHECKPOINT, *QUICK],
        ["sequitur", "rebuild", "export", "--topic", "a", "--to", "x", *QUICK],
        ["sequitur", "rebuild", "run", "--app", "sequitur.flights", "--view", "aircraft", *STORE],
    ],
)
def test_a_broker_that_cannot_be_reached_is_status_2_and_one_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = f"{HOST}:{free_port()}"
    monkeypatch.setenv("SEQUITUR_BROKER", broker)
    monkeypatch.setenv("SEQUITUR_DATADIR", str(tmp_path / "data"))
    _one_line(_run(tmp_path, "-m", *command))
