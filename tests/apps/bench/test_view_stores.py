"""The comparison of view-state stores runs all of them and tells figures that can be."""

import re

import pytest

from bench import view_stores


@pytest.mark.usefixtures("redis_server")
def test_each_store_has_a_line_of_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_stores, "READS", 10)
    assert view_stores.main(["--units", "2"]) == 0
    _, _, *lines = capsys.readouterr().out.splitlines()
    names = ["memory", "RocksDB", "flat files", "SQLite", "PostgreSQL", "Redis"]
    assert [line.split(" | ")[0] for line in lines] == [f"| {name}" for name in names]
    for line in lines:
        found = re.fullmatch(r"\| [\w ]+ \| ([\d,]+) \| (\d+), (\d+) \| (\d+) \|", line)
        assert found is not None, line
        assert int(found[1].replace(",", "")) > 1000
        assert int(found[2]) <= int(found[3])
