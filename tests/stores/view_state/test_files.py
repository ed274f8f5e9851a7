"""The flat files keep the contract, and are what they say they are."""

import gc
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stores.view_state import files
from stores.view_state.contract import ViewStoreContract
from stores.view_state.files import FileTable
from stores.view_state.sorted_file import SortedFile
from stores.view_state.table import TableError


class TestFiles(ViewStoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path / "state"
        self.url = f"files://{self.folder}"

    def spoil(self) -> Callable[[], None]:
        (self.folder / "shop" / "board" / "0" / "current").write_bytes(b"\xa5" * 99)
        return lambda: None


class TestFilesThatAreOftenCompacted(TestFiles):
    """The same with a journal that is full after each few rows."""

    streams = 20_000

    @pytest.fixture(autouse=True)
    def _short_journal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(files, "JOURNAL_BYTES", 40)


def test_rows_stand_in_the_files_as_text(tmp_path: Path) -> None:
    table = FileTable(tmp_path / "0")
    table.write([(b"porder-17", b'{"last":3}'), (b"c", None)], 5)
    (line,) = (tmp_path / "0" / "journal-0").read_text().splitlines()
    assert line[9:] == '[5,[["porder-17","{\\"last\\":3}"],["c",null]]]'
    table.close()


def test_a_journal_counts_up_to_its_first_line_that_is_not_whole(tmp_path: Path) -> None:
    table = FileTable(tmp_path / "0")
    for unit in (1, 2, 3):
        table.write([(b"p", b"%d" % unit)], unit)
    table.close()
    journal = tmp_path / "0" / "journal-0"
    whole = journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    for damaged, expected in (
        (whole[:-1], 2),
        (whole[: len(lines[0]) + 5], 1),
        (lines[0] + lines[1].replace(b'"2"', b'"7"') + lines[2], 1),
        (b"\0" * 100, None),
    ):
        journal.write_bytes(damaged)
        table = FileTable(tmp_path / "0")
        assert table.offset == expected
        assert table.get(b"p") == (None if expected is None else b"%d" % expected)
        # What comes next is not written behind what does not count.
        table.write([(b"q", b"x")], 9)
        table.close()
        table = FileTable(tmp_path / "0")
        assert (table.offset, table.get(b"q")) == (9, b"x")
        table.close()


def test_a_damaged_block_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "JOURNAL_BYTES", 40)
    table = FileTable(tmp_path / "0")
    table.write([(b"p%03d" % number, b"x") for number in range(300)], 1)
    table.close()
    (rows,) = (tmp_path / "0").glob("rows-*")
    rows.write_bytes(rows.read_bytes().replace(b'"p007"', b'"p707"'))
    table = FileTable(tmp_path / "0")
    assert table.get(b"p200") == b"x"
    with pytest.raises(TableError, match=r"(?s)cannot read .* rebuilt from the changelog"):
        table.get(b"p001")
    with pytest.raises(TableError, match="cannot read"):
        list(table.scan(b"p", b"q"))
    table.clear()
    table.write([(b"p001", b"y")], 2)
    assert (table.get(b"p001"), table.offset) == (b"y", 2)
    table.close()


def test_compacting_copies_blocks_without_a_change_and_keeps_few_small_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "JOURNAL_BYTES", 40)
    table = FileTable(tmp_path / "0")
    table.write([(b"p%05d" % number, b"x") for number in range(6400)], 1)
    table.write([(b"p%05d" % number, None) for number in range(6400) if number % 64], 2)
    assert [key for key, _ in table.scan(b"p", b"q")] == [b"p%05d" % n for n in range(0, 6400, 64)]
    assert isinstance(table._rows, SortedFile)
    assert len(table._rows._firsts) < 5
    table.write([(b"p%05d" % number, None) for number in range(6400)], 3)
    assert list(table.scan(b"p", b"q")) == []
    table.write([(b"pa", b"y")], 4)
    assert dict(table.scan(b"p", b"q")) == {b"pa": b"y"}
    table.close()


def test_a_table_that_is_open_elsewhere_is_named_with_the_remedy(tmp_path: Path) -> None:
    table = FileTable(tmp_path / "0")
    with pytest.raises(BlockingIOError, match="a data folder of its own"):
        FileTable(tmp_path / "0")
    table.close()


def test_a_table_without_room_says_so_and_goes_on_when_it_is_opened_anew(tmp_path: Path) -> None:
    program = f"""
import resource, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from stores.view_state.files import FileTable
from stores.view_state.table import TableFull
path = Path({str(tmp_path / "0")!r})
table = FileTable(path)
table.write([(b"p", b"1")], 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
try:
    table.write([(b"p", b"2" * 900)], 2)
except TableFull as error:
    print(error)
table.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
table = FileTable(path)
print(table.offset, table.get(b"p"))
table.write([(b"p", b"3")], 3)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    said, kept = ran.stdout.decode().splitlines()
    assert "make room on the disk" in said
    assert kept == "1 b'1'"
    table = FileTable(tmp_path / "0")
    assert (table.offset, table.get(b"p")) == (3, b"3")
    table.close()


@pytest.mark.parametrize("gone", ["journal-*", "rows-*"])
def test_a_file_that_is_gone_is_damage_as_any_other(
    gone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a kill in the middle of emptying: each start of the partition failed."""
    monkeypatch.setattr(files, "JOURNAL_BYTES", 40)
    table = FileTable(tmp_path / "0")
    for n in range(9):
        table.write([(b"p%d" % n, b"%d" % n)], n)
    table.close()
    (lost,) = (tmp_path / "0").glob(gone)
    lost.unlink()
    table = FileTable(tmp_path / "0")
    assert (table.offset, table.get(b"p1")) == (None, None)
    table.write([(b"p1", b"2")], 3)
    assert (table.offset, table.get(b"p1")) == (3, b"2")
    table.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_table_that_nobody_keeps_is_not_open_for_ever(tmp_path: Path) -> None:
    FileTable(tmp_path / "0")
    gc.collect()
    FileTable(tmp_path / "0").close()
