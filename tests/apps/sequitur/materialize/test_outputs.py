"""A new version of a topology is noticed while the materializer runs, in a process of its own."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sequitur.materialize.outputs import Deployed
from topology import DeclarationError, Table

PARTS = """
from topology import Table
BOARD = Table("board", key={"id": str}, columns={"total": int%s})
"""
SHOP = """
from topology import Inspector, Topology, Upsert
from vshop_parts import BOARD

shop = Topology("vshop")
orders = shop.source("orders", inspector=Inspector(stream="id", sequence="n"))


def handle(event):
    yield Upsert("board", key={"id": event.stream}, values={})


shop.view("board", of=orders, tables=[BOARD])(handle)
%s
"""
MORE = 'shop.view("more", of=orders)(handle)'


class Code:
    """Files, each written at a later time than before."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._at = folder, 1_700_000_000

    def write(self, name: str, text: str) -> None:
        self._at += 10
        (self.folder / name).write_text(text)
        os.utime(self.folder / name, (self._at, self._at))


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Code]:
    code = Code(tmp_path)
    code.write("vshop_parts.py", PARTS % "")
    code.write("vshop.py", SHOP % "")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield code
    for name in ("vshop", "vshop_parts"):
        sys.modules.pop(name, None)


def _looked(deployed: Deployed) -> bool:
    """Look until another version is read, if there is one."""
    looks = [deployed.look(), deployed.look()]  # a file may be half written at the first one
    while deployed.reading:
        looks.append(deployed.look())
        time.sleep(0.01)
    return any(looks)


def test_a_new_view_and_a_new_column_are_found_while_it_runs(code: Code) -> None:
    deployed = Deployed("vshop:shop", None)
    assert deployed.outputs.topics == ["vshop.board"]
    assert not _looked(deployed)

    code.write("vshop.py", SHOP % MORE)
    assert _looked(deployed)
    assert deployed.outputs.topics == ["vshop.board", "vshop.more"]
    assert not _looked(deployed)

    code.write("vshop_parts.py", PARTS % ', "place": str')
    assert _looked(deployed)
    columns = {"total": int, "place": str}
    assert deployed.outputs.tables == [Table("board", key={"id": str}, columns=columns)]


def test_code_that_says_the_same_changes_nothing(code: Code) -> None:
    deployed = Deployed("vshop:shop", "mine")
    code.write("vshop.py", SHOP % "# a word")
    assert not _looked(deployed)
    assert deployed.outputs.dead_topic == "mine"


def test_code_that_is_broken_is_told_once_and_the_next_version_is_read(code: Code) -> None:
    deployed = Deployed("vshop:shop", None)
    code.write("vshop.py", "shop = ")
    with pytest.raises(DeclarationError, match=r"vshop:shop.*SyntaxError"):
        _looked(deployed)
    assert not _looked(deployed)
    (code.folder / "vshop.py").unlink()
    with pytest.raises(DeclarationError, match="no module 'vshop'"):
        _looked(deployed)
    code.write("vshop.py", SHOP % MORE)
    assert _looked(deployed)


def test_code_whose_new_module_comes_later_is_read_when_it_is_there(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sequitur.materialize.outputs.AGAIN_SECONDS", 0.0)
    deployed = Deployed("vshop:shop", None)
    code.write("vshop.py", SHOP % f"import vshop_views\n{MORE}")
    with pytest.raises(DeclarationError, match="needs 'vshop_views'"):
        _looked(deployed)
    assert not _looked(deployed)
    code.write("vshop_views.py", "")
    assert _looked(deployed)
    assert deployed.outputs.topics == ["vshop.board", "vshop.more"]


def test_code_that_ends_its_process_is_told(code: Code) -> None:
    deployed = Deployed("vshop:shop", None)
    code.write("vshop.py", "import os\nprint('gone')\nos._exit(3)\n")
    with pytest.raises(DeclarationError, match="status 3"):
        _looked(deployed)
    deployed.close()


def test_a_table_of_a_class_that_is_not_known_yet_is_told_and_does_not_end_it(code: Code) -> None:
    with Deployed("vshop:shop", None) as deployed:
        parts = PARTS.replace("BOARD = Table", "class Mine(Table): pass\nBOARD = Mine")
        code.write("vshop_parts.py", parts % "")
        with pytest.raises(DeclarationError, match=r"anew ended with status 0: .*Mine"):
            _looked(deployed)
