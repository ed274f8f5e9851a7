"""The bench of events that wait: all that it puts in comes out, whatever waits."""

from pathlib import Path

import pytest

from bench.bench import Wrong
from bench.scenarios import waiting


def test_all_that_waits_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "MORE", 40)
    monkeypatch.setattr(waiting, "STEP", 7)
    partition = waiting.Partition(tmp_path / "table")
    assert partition.take((stream, at) for at in (3, 2) for stream in range(5)) > 0
    assert partition.done == 0
    partition.take((stream, 1) for stream in range(4))
    partition.close()
    assert partition.done == 12
    with pytest.raises(Wrong, match="12 outputs of 15"):
        waiting.check(partition, 15)
    assert waiting.behind(tmp_path, 5, 3).keys() == {"waits", "goes"}
    assert waiting.all_in_all(tmp_path, [(1, n) for n in (3, 2, 1, 4)]).keys() == {"all"}
