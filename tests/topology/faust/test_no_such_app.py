"""`-A` that is wrong: one line that names it, and what was meant."""

import sys
from pathlib import Path

import faust
import pytest

from topology.faust.__main__ import main
from topology.model.dotted import find


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("nosuchapp", "there is no module 'nosuchapp'"),
        ("yshop:ap", "has no 'ap' (did you mean 'app'?)"),
        ("yshop.ap", "has no 'ap' (did you mean 'app'?)"),
        # The first of those that come close: what other tests have imported comes behind it.
        ("yshpo", "there is no module 'yshpo' (did you mean 'yshop'"),
        ("ybroken", "ybroken.py line 1"),
        ("ylazy", "making 'app' failed (ZeroDivisionError"),
        ("yset", "compile: session_timeout: write a number and its unit"),
        ("yset", "yset.py line 3"),
    ],
)
@pytest.mark.parametrize("form", [["-A", "{}"], ["--app", "{}"], ["--app={}"]])
def test_an_app_that_is_not_there_is_one_line(
    place: str,
    says: str,
    form: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "yshop.py").write_text("import faust\napp = faust.App('yshop')\n")
    (tmp_path / "ybroken.py").write_text("1 / 0\n")
    (tmp_path / "ylazy.py").write_text("def __getattr__(name):\n    return 1 / (name != 'app')\n")
    (tmp_path / "yset.py").write_text(
        "from topology import Topology\nfrom topology.faust import compile\n"
        "app = compile(Topology('yset'), session_timeout='10')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    assert main([*(word.format(place) for word in form), "agents"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


def test_an_app_that_its_package_makes_when_it_is_asked_for_is_found() -> None:
    find("app", "sequitur.flights", "app", lambda one: isinstance(one, faust.App))
