"""Commands that the console runs: what they say, who gives them, and that they end."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nicegui import Client, core
from nicegui.page import page

from sequitur.cli import outcome
from sequitur.console import look_command
from sequitur.console.jobs import Job, Jobs
from sequitur.console.pages import audit
from sequitur.console.reader import Reader
from sequitur.console.run_command import Answer, followed, run_command
from topology.faust.operation.command_sender import acting_for

SAYS = """
import getpass, sys, time
print(getpass.getuser(), sys.argv[1:], sys.stdin.read())
print("2026-11-23 20:00:00,000 ERROR part: it is wrong", file=sys.stderr, flush=True)
time.sleep(600 if "--sleep" in sys.argv else 0)
sys.exit(1)
"""

FOUND: dict[str, Any] = {
    "number": 1, "bad_news": ["3 dead"], "pending": [], "not_proved": "", "remarks": ["seen"],
    "views": [],
    "violations": [
        {"view": "board", "stream": "<b>", "sequence": 1, "what": "it came twice",
         "place": {"topic": "t", "partition": 0, "offset": 1}},
    ],
}  # fmt: skip


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "says.py").write_text(SAYS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 240
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_command_is_given_its_words_as_they_are_and_in_somebodys_name() -> None:
    heard = list[str]()

    async def run() -> Answer:
        with acting_for("ann"):
            return await followed(["says", "$(x)", "a b"], b"in", heard.append)

    found = asyncio.run(run())
    assert found.status == 1
    assert found.text.startswith("ann by ")
    assert found.text.endswith("['$(x)', 'a b'] in")
    assert heard == ["it is wrong"]


def test_a_command_that_says_nothing_else_says_why_it_could_not() -> None:
    found = asyncio.run(run_command(["sequitur.nothing"]))
    assert found.status == 1
    assert "sequitur.nothing" in found.text


def test_a_command_that_takes_too_long_is_ended() -> None:
    with pytest.raises(TimeoutError, match="longer than"):
        asyncio.run(run_command(["says", "--sleep"], seconds=0.01))


def test_a_job_says_how_far_it_is_and_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    app: Any = SimpleNamespace()
    monkeypatch.setattr("sequitur.console.reader.keep_folds", lambda app: None)
    with Reader(app) as reader:
        ends, lasts = Job(["says"]), Job(["says", "--sleep"])
        ends.begin(reader)
        lasts.begin(reader)
        wait_until(lambda: lasts.progress == "it is wrong" and not ends.runs)
        assert ends.answer is not None
        assert lasts.runs
        lasts.cancel()
        assert not lasts.runs
        assert (lasts.progress, lasts.answer) == ("It was cancelled.", None)
        odd = Job(["a\0word"])
        odd.begin(reader)
        wait_until(lambda: odd.answer is not None)


async def test_what_a_job_found_is_shown_and_what_it_could_not_is_said() -> None:
    jobs, shown = Jobs(SimpleNamespace()), list[Any]()  # type: ignore[arg-type]
    monkeypatched = core.loop
    core.loop = asyncio.get_running_loop()
    try:
        with Client(page("/"), request=None) as client:
            for kind, text in (("good", '{"a": 1}'), ("bad", "Traceback")):
                jobs.done(kind, Job(["x"], answer=Answer(1, text)))
                jobs.show(kind, lambda: ["x"], shown.append)
            audit.show(FOUND)
        texts = [getattr(each, "text", None) for each in client.elements.values()]
    finally:
        core.loop = monkeypatched
    assert shown == [{"a": 1}]
    assert "Traceback" in texts
    assert "Not in order: 1 violation, 3 dead" in texts


def test_what_a_command_of_this_process_says_is_kept_from_what_others_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # set back when the test has ended
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [*root.handlers])
    look_command.begin()

    async def both() -> tuple[Answer, Answer]:
        url = f"sqlite:///{tmp_path}/none.sqlite"
        looks = (
            look_command.look_command(["inbox", "parked", "--database", url]),
            look_command.look_command(["relay", "stats"]),
        )
        print("another")
        one, other = await asyncio.gather(*looks)
        return one, other

    away, wrong = asyncio.run(both())
    assert away.status == 2
    assert "there is no such file" in away.text
    assert wrong.status == 2
    assert "No such command 'stats'" in wrong.text
    assert capsys.readouterr().out == "another\n"


def test_no_secret_of_a_url_is_in_what_a_command_of_this_process_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outcome, "_given", {})
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.NullHandler()])
    outcome.log_to_stderr(["postgresql://me:geheim-und-lang@host/log"])
    kept = list[str]()
    token = look_command._heard.set(kept)
    try:
        record = logging.LogRecord("a", logging.ERROR, "", 0, "no %s", ("geheim-und-lang",), None)
        look_command._Errors().emit(record)
    finally:
        look_command._heard.reset(token)
    (said,) = kept
    assert "geheim" not in said
