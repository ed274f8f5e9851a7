"""The exit status of every command: 0 done or well, 1 bad news, 2 it could not look or be given."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    TopicAuthorizationFailedError,
)

from tests.topology.faust.worker import test_no_broker
from tests.topology.faust.worker_process import Worker
from topology.faust.cli.answering import AnsweringCommand, reason_of

APP, PARTITIONS = test_no_broker.APP, test_no_broker.PARTITIONS
COMMANDS = [
    "explain a", "gaps", "views", "parked", "commands", "suggest-timeouts", "audit",
    "skip a 4", "skip --all", "redrive a", "redrive --all --dry-run", "unpark a",
    "unpark --older-than 1m", "drop a", "halt board", "resume board", "cancel 12", "redrive-dead",
]  # fmt: skip
OF_VIEWS = [
    "redrive-dead",
    "explain a",
    "parked",
    "commands",
    "skip a 4",
    "skip --all",
    "redrive a",
    "drop a",
]


def ended(worker: Worker, lines: list[str], **environment: str) -> dict[str, tuple[int, str, str]]:
    """Command line → (exit status, standard output, standard error), all run side by side."""
    started = {line: worker.fork(*line.split(), **environment) for line in lines}
    found = {line: process.ended(300) for line, process in started.items()}
    return {line: (done.returncode, done.stdout, done.stderr) for line, done in found.items()}


@pytest.mark.integration
def test_what_cannot_look_says_so_in_a_line_and_ends_with_2(worker: Worker, nobody: str) -> None:
    told = ended(worker, [*COMMANDS, "topics", "topics --create"], SEQUITUR_BROKER=nobody)
    for line, (status, out, err) in told.items():
        assert (status, out) == (2, ""), (line, err)
        assert err == f"no broker answers at {nobody}; start it, or set SEQUITUR_BROKER\n", line
    # A broker, but no worker has made the topics yet.
    for line, (status, out, err) in ended(worker, COMMANDS).items():
        assert (status, out) == (2, ""), (line, out, err)
        assert len(err.splitlines()) == 1, (line, err)
        assert "no worker of this topology has run" in err, (line, err)
    wrong = [*(f"{line} --view none" for line in OF_VIEWS), "halt none", "resume none"]
    for line, (status, out, err) in ended(worker, wrong).items():
        assert (status, out) == (2, ""), (line, err)
        assert "view 'none' is not in" in err, line
    useless = ["redrive", "redrive a --all", "skip a", "unpark --older-than soon"]
    useless += ["errors --since 1h --until 2h", "errors --until 1h --since 1h"]
    for line, (status, _, err) in ended(worker, useless).items():
        assert (status, len(err.splitlines())) == (2, 1), (line, err)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KafkaConnectionError("x"), "no broker answers at here:1, there:2; start it, or set "),
        (TopicAuthorizationFailedError("shop.dead"), "the broker refuses it: [Error 29] Topic"),
        (AuthenticationFailedError("SCRAM"), "the broker refuses it: "),
        (KeyError("view 'x' is not in 'shop'"), "view 'x' is not in 'shop'"),
        (TimeoutError(), "TimeoutError: "),
        (PermissionError(13, "Permission denied"), "PermissionError: [Errno 13] Permission denied"),
        (ValueError("that is wrong"), "that is wrong"),
        (
            UnicodeEncodeError("utf-8", "\udcff", 0, 1, "no"),
            "UnicodeEncodeError: 'utf-8' codec can't",
        ),
    ],
)
def test_why_there_is_no_answer(error: Exception, reason: str) -> None:
    assert reason.replace("[Error 29] Topic", "") in reason_of(error, ["here:1", "there:2"])


def test_no_answer_reaches_a_terminal_raw(capsys: pytest.CaptureFixture[str]) -> None:
    asked: Any = SimpleNamespace(json=False)
    AnsweringCommand.answer(asked, "one: \x1b[2J\u202e\ntwo", {"a": 1})
    assert capsys.readouterr().out == "one: \\x1b[2J\\u202e\ntwo\n"
    asked.json = True
    AnsweringCommand.answer(asked, "", {"a": "\x1b", 1: 2})
    assert capsys.readouterr().out == '{"a":"\\u001b","1":2}\n'
