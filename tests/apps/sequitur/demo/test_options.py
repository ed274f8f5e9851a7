from collections.abc import Callable
from pathlib import Path

import pytest

from sequitur.cli.main import main
from sequitur.demo import command as demo
from sequitur.demo.run import Options
from sequitur.flights.network import Network
from sequitur.local.home import HOME, locked


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], Options]:
    """What a command line comes to."""
    found: list[Options] = []
    monkeypatch.setattr(demo, "run", found.append)

    def read(arguments: list[str]) -> Options:
        assert main(["demo", *arguments]) == 0
        return found.pop()

    return read


def test_defaults(options: Callable[[list[str]], Options]) -> None:
    chosen = options([])
    assert chosen.events == 200_000
    assert chosen.network == Network()
    assert chosen.folder == HOME / "demo"
    assert chosen.store == HOME / "demo" / "flights.sqlite"
    assert (chosen.kill_worker_at, chosen.keep) == (None, False)


def test_choices(options: Callable[[list[str]], Options], tmp_path: Path) -> None:
    chosen = options(
        [
            *("--all", "--keep", "--seed", "5", "--rate", "1000", "--kill-worker-at", "0.5"),
            *("--folder", str(tmp_path), "--read-store", str(tmp_path / "my.db")),
        ]
    )
    assert chosen.events is None
    assert chosen.network == Network(seed=5, rate=1000)
    assert (chosen.folder, chosen.store) == (tmp_path, tmp_path / "my.db")
    assert (chosen.kill_worker_at, chosen.keep) == (0.5, True)


@pytest.mark.parametrize(
    "wrong", ["--events 0", "--events x", "--rate -1", "--kill-worker-at 2", "--seed -1"]
)
def test_a_wrong_choice_is_named(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *wrong.split()]) == 2
    assert wrong.split()[0] in capsys.readouterr().err


def test_two_demos_do_not_share_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(tmp_path / "sequitur-demo.lock", wait=False) as ours:
        assert ours
        (tmp_path / "kafka").mkdir()
        assert main(["demo", "--folder", str(tmp_path)]) == 2
    assert "another demo is running" in capsys.readouterr().out
    assert (tmp_path / "kafka").is_dir()


def test_it_takes_nothing_over_that_is_not_a_demos(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "worker").mkdir()
    assert main(["demo", "--folder", str(tmp_path)]) == 2
    assert "no folder of an earlier demo" in capsys.readouterr().err
    assert (tmp_path / "worker").is_dir()

    (tmp_path / "mine.db").write_text("precious")
    assert (
        main(["demo", "--folder", str(tmp_path / "new"), "--read-store", str(tmp_path / "mine.db")])
        == 2
    )
    assert "mine.db exists" in capsys.readouterr().err
    assert (tmp_path / "mine.db").read_text() == "precious"


def test_a_folder_that_cannot_be_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["demo", "--folder", str(tmp_path / "file" / "demo")]) == 2
    assert "the demo failed: " in capsys.readouterr().err
