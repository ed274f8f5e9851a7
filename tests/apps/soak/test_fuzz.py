"""The fuzzing of the soak finds what breaks, and says with which input."""

import random

import pytest
from click.testing import CliRunner
from hypothesis import strategies as st

from soak.fuzz import __main__ as fuzz


class Planted:
    """A boundary that stops at inputs of four bytes and more."""

    name = "planted"

    def strategy(self) -> st.SearchStrategy[bytes]:
        return st.binary()

    def run(self, input: bytes) -> None:
        assert len(input) < 4


class Sound(Planted):
    name = "sound"

    def run(self, input: bytes) -> None:
        """Takes everything."""


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "boundaries", lambda: iter([Planted(), Sound()]))


@pytest.mark.usefixtures("planted")
def test_what_breaks_is_named_with_its_smallest_input_and_the_others_go_on() -> None:
    done = CliRunner().invoke(fuzz.main, ["--seconds", "0.1", "--seed", "5"])
    assert done.exit_code == 1
    assert r"input=b'\x00\x00\x00\x00'" in done.output
    assert "2/2 sound" in done.output
    assert "all accounted for" in done.output
    assert done.output.splitlines()[-1] == "BROKEN: planted (seed 5)"


@pytest.mark.usefixtures("planted")
def test_a_boundary_can_be_chosen() -> None:
    runner = CliRunner()
    assert runner.invoke(fuzz.main, ["sound", "--seconds", "0.1"]).exit_code == 0
    done = runner.invoke(fuzz.main, ["soond"])
    assert done.exit_code == 2
    assert "no boundary 'soond'; there are planted, sound" in done.output


def test_it_goes_on_for_as_long_as_it_is_told_to() -> None:
    assert fuzz.attack(Sound(), random.Random(1), 0.5) >= fuzz.INPUTS
