"""The dead records of a read store can be looked at, removed and bounded; never silently."""

import getpass
from pathlib import Path

import pytest

from sequitur.cli.main import main
from stores.sinks import DeadLimit, StoreError, open_sink
from stores.sinks.dead_limit import keep_from


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"sqlite:///{tmp_path}/read.db"
    with open_sink(found) as sink:
        sink.apply([("shop.b\x1board", 0, at, b"{\x1b") for at in range(3)])
        sink.apply([("shop.other", 1, 7, None)])
    return found


def test_dead_records_are_listed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dead-records", "list", "--read-store", url, "--show", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == r"shop.b\x1board/0: 3 dead records, 0 more removed"
    assert lines[1] == "shop.other/1: 1 dead record, 0 more removed"
    assert len(lines) == 3
    assert "\x1b" not in "".join(lines)


def test_dead_records_are_removed_and_stay_counted(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    remove = ["remove", "--read-store", url, "--topic", "shop.other"]
    assert main(["dead-records", *remove, "--older-than", "1d"]) == 0
    assert capsys.readouterr().out == "0 dead records removed\n"
    assert main(["dead-records", *remove, "--dry-run"]) == 0
    assert capsys.readouterr().out == "1 dead record would be removed\n"
    assert main(["dead-records", *remove, "--reason", "an\x1bold format"]) == 0
    assert main(["dead-records", "list", "--read-store", url]) == 1
    said = capsys.readouterr().out
    assert "shop.other/1: 0 dead records, 1 more removed" in said
    assert f"1 dead record removed by {getpass.getuser()}: an\\x1bold format" in said
    assert main(["dead-records", "remove", "--read-store", url]) == 0
    assert main(["dead-records", "list", "--read-store", url]) == 0
    assert "no dead record is kept" in capsys.readouterr().out
    with open_sink(url) as sink:
        assert sum(position.dead for position in sink.progress()) == 4


def test_a_store_that_cannot_be_looked_at_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no database, though there is something in it")
    for name in ("file/read.db", "file", "mistyped.db"):
        assert main(["dead-records", "list", "--read-store", f"sqlite:///{tmp_path}/{name}"]) == 2
        assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "mistyped.db").exists()


def test_a_store_into_which_nothing_was_materialized_is_not_told_to_be_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    open_sink(other).close()
    for command in ("list", "remove"):
        assert main(["dead-records", command, "--read-store", other]) == 2
        assert "nothing was ever materialized into this read store" in caplog.messages[-1]
    assert capsys.readouterr().out == ""


def test_shadow_tables_that_are_not_there_are_told_and_not_made(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with open_sink(url, shadow="next") as sink:
        sink.apply([("shop.other", 1, 7, None)])
    place = ["--read-store", url, "--shadow"]
    assert main(["dead-records", "list", *place, "next"]) == 1
    for command in ("list", "remove"):
        assert main(["dead-records", command, *place, "nxt"]) == 2
        assert "'nxt' are not there; there are: next" in caplog.messages[-1]
    with open_sink(url) as sink:
        assert sink.shadows() == ["next"]


def test_how_many_are_kept_is_configured(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert keep_from({}) == DeadLimit(10_000, None)
    monkeypatch.setenv("SEQUITUR_DEAD_RECORDS", "2")
    monkeypatch.setenv("SEQUITUR_DEAD_DAYS", "0.5")
    with open_sink(url) as sink:
        assert sink.keep_dead == DeadLimit(2, 0.5)
        sink.apply([("shop.other", 1, 8, b"x")])
        assert sum(each.kept for each in sink.dead_counts()) == 2
        assert sum(each.removed for each in sink.dead_counts()) == 3
    wrong = {"RECORDS": ("0", "many"), "DAYS": ("-1", "nan", "inf", "1e300")}
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        monkeypatch.setenv("SEQUITUR_DEAD_RECORDS", "5")
        monkeypatch.setenv(f"SEQUITUR_DEAD_{name}", value)
        with pytest.raises(StoreError, match="above zero"):
            open_sink(url)
