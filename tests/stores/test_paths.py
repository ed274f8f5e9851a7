"""What does not answer is not taken for what is not there, and made anew or written over."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sequitur.demo.command import _refusal
from sequitur.demo.run import Options
from sequitur.flights.network import Network
from sequitur.local.broker_config import configure
from stores.paths import is_there
from stores.segments.message import Pair
from stores.segments.transports.files import FileOutbound
from stores.view_state.files import FileTable
from stores.view_state.table import TableError


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let the disk fail wherever a file of this name is asked for."""
    stat, read = os.stat, Path.read_bytes

    def begin(name: str) -> None:
        def check(path: Any) -> None:
            if str(path).endswith(name):
                raise OSError(errno.EIO, "Input/output error", str(path))

        def failing_stat(path: Any, *given: Any, **named: Any) -> os.stat_result:
            check(path)
            return stat(path, *given, **named)

        def failing_read(path: Path) -> bytes:
            check(path)
            return read(path)

        monkeypatch.setattr(os, "stat", failing_stat)
        monkeypatch.setattr(Path, "read_bytes", failing_read)

    return begin


def test_only_what_is_missing_is_not_there(tmp_path: Path, fails: Callable[[str], None]) -> None:
    file = tmp_path / "file"
    assert not is_there(file)
    file.touch()
    assert is_there(tmp_path)
    assert is_there(file)
    assert not is_there(file / "below")
    fails("file")
    with pytest.raises(OSError, match="Input/output error"):
        is_there(file)


def test_a_table_is_not_begun_anew(
    tmp_path: Path, fails: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = FileTable(tmp_path / "0")
    table.write([(b"p", b"1")], 5)
    table.close()
    fails("current")
    with pytest.raises(TableError, match="cannot open the table"):
        FileTable(tmp_path / "0")
    monkeypatch.undo()
    table = FileTable(tmp_path / "0")
    assert (table.offset, table.get(b"p")) == (5, b"1")
    table.close()


def test_how_far_lines_are_confirmed_is_not_forgotten(
    tmp_path: Path, fails: Callable[[str], None]
) -> None:
    outbound, pair = FileOutbound(tmp_path), Pair("orders", "disk")
    outbound._start(pair)
    outbound._let_go()
    (confirmed,) = tmp_path.glob("*.confirmed")
    before = confirmed.read_text()
    (tmp_path / ".orders.confirmed").touch()  # an earlier version's, which would take its place
    fails(confirmed.name)
    with pytest.raises(OSError, match="Input/output error"):
        outbound._start(pair)
    outbound._let_go()
    assert confirmed.read_text() == before


def test_a_broker_s_records_are_not_formatted(tmp_path: Path, fails: Callable[[str], None]) -> None:
    properties = tmp_path / "records" / "meta.properties"
    properties.parent.mkdir()
    properties.touch()
    fails("meta.properties")
    with pytest.raises(OSError, match="Input/output error"):
        configure(tmp_path, 9092, {})
    assert os.listdir(properties.parent) == ["meta.properties"]


def test_a_folder_of_somebody_else_is_not_taken_for_the_demo(
    tmp_path: Path, fails: Callable[[str], None]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    fails("mine")
    with pytest.raises(OSError, match="Input/output error"):
        _refusal(Options(folder=folder, store=folder / "flights.sqlite", network=Network()))
