"""RocksTable: rows and offset together, and files that are not what they were."""

import os
import random
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stores.view_state.rocksdb import RocksTable
from stores.view_state.table import TableBusy, TableError, TableUnavailable

ROWS = [(b"p%04d" % number, b"%d" % number) for number in range(2000)]


def everything(table: RocksTable) -> dict[bytes, bytes]:
    return dict(table.scan(b"a", b"\xff"))


def test_rows_and_offset_are_read_back(tmp_path: Path) -> None:
    table = RocksTable(tmp_path / "view" / "0")
    assert (table.offset, table.get(b"p0001")) == (None, None)
    table.write(ROWS, 17)
    table.write([(b"p0001", None), (b"p0002", b"x")], 19)
    table.close()
    again = RocksTable(tmp_path / "view" / "0")
    assert (again.offset, again.get(b"p0001"), again.get(b"p0002")) == (19, None, b"x")
    assert [key for key, _ in again.scan(b"p0003", b"p0006")] == [b"p0003", b"p0004", b"p0005"]
    assert len(everything(again)) == 1999
    again.clear()
    assert (again.offset, everything(again)) == (None, {})
    again.close()


def test_a_table_that_is_open_elsewhere_is_named_with_the_remedy(tmp_path: Path) -> None:
    table = RocksTable(tmp_path / "0")
    with pytest.raises(BlockingIOError, match="a data folder of its own"):
        RocksTable(tmp_path / "0")
    table.close()


def test_damage_heals_whatever_the_folder_is_called(tmp_path: Path) -> None:
    path = tmp_path / "blocked" / "0"
    table = RocksTable(path)
    table.write(ROWS, 17)
    table.close()
    for manifest in path.glob("MANIFEST-*"):
        manifest.unlink()
    again = RocksTable(path)
    assert again.offset is None
    again.close()


def test_a_table_that_cannot_be_opened_for_want_of_files_is_kept(tmp_path: Path) -> None:
    table = RocksTable(tmp_path / "0")
    table.write(ROWS, 17)
    table.close()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The limit is on a file's number: those below it that are free can be opened, no more.
    taken = set(map(int, os.listdir("/proc/self/fd")))
    free = [number for number in range(len(taken) + 8) if number not in taken]
    told = []
    for number in free[:8]:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, limits[1]))
        try:
            RocksTable(tmp_path / "0").close()
        except TableUnavailable as error:
            told.append(str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert told
    assert all("ulimit -n" in each for each in told)
    again = RocksTable(tmp_path / "0")
    assert (again.offset, everything(again)) == (17, dict(ROWS))
    again.close()


@pytest.mark.parametrize("how", ["truncated", "overwritten", "garbage"])
def test_damaged_files_make_an_empty_table_or_the_same_one_never_another(
    tmp_path: Path, how: str
) -> None:
    table = RocksTable(tmp_path / "0")
    table.write(ROWS, 17)
    table.close()
    for path in (tmp_path / "0").iterdir():
        if how == "truncated":
            os.truncate(path, path.stat().st_size // 2)
        elif how == "overwritten":
            path.write_bytes(b"\xa5" * path.stat().st_size)
        elif path.name == "CURRENT":
            path.write_bytes(b"nonsense")
    again = RocksTable(tmp_path / "0")
    assert (again.offset, everything(again)) in ((None, {}), (17, dict(ROWS)))
    again.close()


def test_damage_at_any_place_of_any_file_is_told_or_does_not_matter(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    written: dict[bytes, bytes] = {}
    at: dict[int | None, dict[bytes, bytes]] = {None: {}}
    chance = random.Random(5)
    for session in range(3):
        table = RocksTable(whole)
        for turn in range(3):
            rows = [(b"p%04d" % chance.randrange(300), chance.randbytes(40)) for _ in range(60)]
            written |= dict(rows)
            at[offset := session * 1000 + turn + 1] = dict(written)
            table.write(rows, offset)
        table.close()
    told = 0
    for file in sorted(whole.iterdir()):
        size = file.stat().st_size
        for place in [chance.randrange(size) for _ in range(4)] if size else []:
            copy = tmp_path / "copy"
            shutil.copytree(whole, copy)
            with (copy / file.name).open("r+b") as damaged:
                damaged.seek(place)
                damaged.write(b"\xa5" * 64)
            table = RocksTable(copy)
            try:
                assert everything(table) == at[table.offset], (file.name, place)
            except TableError:
                told += 1
            table.close()
            shutil.rmtree(copy)
    assert told


def test_a_table_whose_offset_cannot_be_read_is_empty_again(tmp_path: Path) -> None:
    table = RocksTable(tmp_path / "0")
    table.write(ROWS[:20], 17)
    table.close()
    (rows,) = (tmp_path / "0").glob("*.sst")
    with rows.open("r+b") as damaged:
        damaged.write(b"\xa5" * 64)
    again = RocksTable(tmp_path / "0")
    assert (again.offset, everything(again)) == (None, {})
    again.close()


def test_a_damaged_table_is_emptied_though_its_error_and_a_scan_are_kept(tmp_path: Path) -> None:
    table = RocksTable(tmp_path / "0")
    table.write([(b"p%04d" % n, b"%d" % n * 50) for n in range(5000)], 5000)
    table.close()
    (rows,) = (tmp_path / "0").glob("*.sst")
    with rows.open("r+b") as damaged:
        damaged.seek(rows.stat().st_size // 2)
        damaged.write(b"\xa5" * 64)
    table = RocksTable(tmp_path / "0")
    begun = table.scan(b"p", b"q")
    assert next(begun) == (b"p0000", b"0" * 50)
    with pytest.raises(TableError, match="checksum") as kept:
        list(table.scan(b"p", b"q"))
    table.clear()
    assert (table.offset, everything(table), list(begun)) == (None, {}, [])
    table.close()
    RocksTable(tmp_path / "0").close()
    assert "cannot read" in str(kept.value)


def test_a_killed_process_leaves_a_table_at_an_earlier_commit_never_between_two(
    tmp_path: Path,
) -> None:
    program = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from pathlib import Path
from stores.view_state.contract_kit import write
from stores.view_state.rocksdb import RocksTable
table = RocksTable(Path({str(tmp_path / "0")!r}))
for unit in range(1, 3000):
    now = b"%d" % unit
    write(table, [(b"p%d" % (unit % 7), now), (b"c", now), (b"x", b"y" * 9000)], unit)
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    table = RocksTable(tmp_path / "0")
    assert table.offset is not None
    assert 0 < table.offset < 2999
    assert table.get(b"c") == b"%d" % table.offset
    assert table.get(b"p%d" % (table.offset % 7)) == b"%d" % table.offset
    table.close()


def test_a_table_without_room_names_folder_and_remedy_and_keeps_what_it_has(tmp_path: Path) -> None:
    program = f"""
import resource, sys, time
sys.path[:0] = {sys.path!r}
from pathlib import Path
from stores.view_state import rocksdb
rocksdb.WRITE_BUFFER_BYTES = 64 << 10
path = Path({str(tmp_path / "0")!r})
table = rocksdb.RocksTable(path)
table.write([(b"p1", b"1")], 1)
table.close()
table = rocksdb.RocksTable(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

def failing(action):
    try:
        action()
    except rocksdb.TableFull as error:
        print(error)

def write():
    unit = 2
    while unit < 3000:
        try:
            table.write([(b"x%d" % unit, b"y" * 900)], unit)
            unit += 1
        except rocksdb.TableBusy:
            time.sleep(0.001)

for action in (write, table.close, lambda: rocksdb.RocksTable(path)):
    failing(action)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    told = ran.stdout.decode().splitlines()
    for doing, line in zip(("write", "close", "open"), told, strict=True):
        assert f"cannot {doing} the table in {tmp_path / '0'}: " in line
        assert "make room on the disk" in line
    table = RocksTable(tmp_path / "0")
    assert table.offset is not None
    assert table.get(b"p1") == b"1"
    table.close()


def test_a_write_that_would_have_to_wait_for_the_disk_says_so_at_once(tmp_path: Path) -> None:
    """RocksDB lets it stand otherwise, until there is room: on the event loop, for ever."""
    table = RocksTable(tmp_path / "0")
    table.write([(b"p1", b"1")], 1)
    assert table._write_options.no_slowdown
    database = table._db

    class Stalled:
        def write(self, *_: object) -> None:
            raise Exception("Result incomplete: Write stall")

    table._db = Stalled()
    with pytest.raises(TableBusy, match=r"the table in .* has taken no write"):
        table.write([(b"p1", b"2")], 2)
    table._db = database
    assert (table.offset, table.get(b"p1")) == (1, b"1")
    table.close()


def test_a_table_that_was_closed_is_let_go_of_at_once(tmp_path: Path) -> None:
    """Not when whoever still holds it forgets it: that took a second, on the loop."""
    table = RocksTable(tmp_path / "0")
    table.write([(b"p1", b"1")], 1)
    table.close()
    again = RocksTable(tmp_path / "0")
    assert again.get(b"p1") == b"1"
    again.close()
    with pytest.raises(TableError, match="it is closed"):
        table.get(b"p1")
