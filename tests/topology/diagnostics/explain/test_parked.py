"""What is parked is listed, with the reason, the oldest first; and commands with their state."""

from typing import Any

import orjson

from tests.topology.diagnostics.explain.durable import send, task_of, waiting_of
from tests.topology.handled import driver_of
from topology import Event, TopologyTestDriver, park, retry
from topology.diagnostics.explain import of_waiting
from topology.diagnostics.explain.command_log import (
    CommandFilter,
    answered_command,
    command_text,
    commands_text,
    merged,
    pending_command,
)
from topology.diagnostics.explain.parked_streams import (
    ParkedStream,
    ParkedStreams,
    parked_of,
    parked_text,
    reason_of,
)
from topology.diagnostics.parked_groups import groups_text
from topology.engine.commands.command import Command


def board(event: Event) -> None:
    if event.kind == "Bad":
        raise ValueError(f"{event.stream} is bad")


def aside(driver: TopologyTestDriver) -> ParkedStreams:
    found = list(parked_of(task_of(driver, of_waiting), 0))
    view = driver.topology.views["board"]
    kept = waiting_of(driver).parked(view, 0, view.ordering)
    assert sorted(kept, key=str) == sorted(found, key=str)
    made = ParkedStreams(driver.now, sorted(found, key=lambda one: one.since))
    told = map(reason_of, driver._storage.topics["shop.errors"])
    made.explain(dict(each for each in told if each is not None))
    return made


def test_parked_streams_are_listed_with_how_long_and_why() -> None:
    driver = driver_of(board, error=park())
    send(driver, 1, 2)
    send(driver, 3, kind="Bad")
    driver.advance(600)
    send(driver, 1, stream="\x1b[2Jb", kind="Bad")
    send(driver, 2, 3, stream="\x1b[2Jb")
    found = aside(driver)
    assert [(e.stream, e.sequence, e.waiting) for e in found.streams] == [
        ("a", 3, 1),
        ("\x1b[2Jb", 1, 3),
    ]
    text = parked_text(found, 50)
    assert "\x1b" not in text
    assert "10 min" in text.splitlines()[1]
    assert "ValueError: a is bad" in text
    assert text.endswith("2 parked streams, with 4 waiting events")
    assert parked_text(found, 1).endswith("1 more not shown")
    assert [e.stream for e in found.older(300).streams] == ["a"]
    assert [e.stream for e in found.older(0, "b is bad").streams] == ["\x1b[2Jb"]
    assert [e.stream for e in found.older(0, stream="a").streams] == ["a"]
    assert parked_text(ParkedStreams(0), 5) == "no stream is parked"


def test_parked_streams_are_grouped_by_what_their_reasons_have_in_common() -> None:
    driver = driver_of(board, error=park())
    for stream, kind in (("1", "Bad"), ("2", "Bad"), ("x", "Bad"), ("x", "Ok")):
        send(driver, 1 if kind == "Bad" else 2, stream=stream, kind=kind)
    head, first, second, total = groups_text(aside(driver))
    assert head.split() == ["streams", "wait", "view", "oldest", "sample", "reason"]
    assert first.split()[:3] == ["2", "2", "board"]
    assert first.endswith("2       ValueError: … is bad")
    assert (second.split()[:2], second.endswith("ValueError: x is bad")) == (["1", "2"], True)
    assert total == "3 parked streams in 2 groups"


def test_a_stream_that_is_retried_by_itself_is_not_parked() -> None:
    driver = driver_of(board, error=retry(3, 60))
    send(driver, 1, kind="Bad")
    assert aside(driver).streams == []


def test_records_of_others_in_the_errors_topic_are_passed_over() -> None:
    record: Any = type("R", (), {"value": None})
    for value in (None, b"", b"\xff", b"[]", b"{}", b'{"view": 1}', b'{"sequence": "x"}'):
        record.value = value
        assert reason_of(record) is None


def test_commands_are_listed_once_with_what_came_of_them() -> None:
    halt = Command("halt", "board", who="ann", id="1", given=1000, expires=601_000)
    skip = Command("skip", "board", "\x1b[2J", 4, "bob", id="2", given=2000)
    old = {"id": "", "name": "drop", "view": "board", "stream": "a", "who": "eve", "when": 500,
           "done": True, "message": "gone"}  # fmt: skip
    told = {
        **orjson.loads(orjson.dumps(skip)), "when": 9, "done": False, "message": "has no stream",
    }  # fmt: skip
    done = {**told, "done": True, "message": "well", "when": 2500, "outcome": "carried out"}
    found = merged(
        [
            pending_command(halt, 0),
            pending_command(halt, 0),
            answered_command(old),
            answered_command(told),
            answered_command(done),
        ]
    )
    assert [(t.name, t.state) for t in found] == [
        ("drop", "carried out"),
        ("halt", "waits"),
        ("skip", "carried out"),
    ]
    text = commands_text(found, 61_000)
    assert "\x1b" not in text
    assert "waits, for 9 min more" in text
    assert text.endswith("3 commands, 1 waiting")
    assert "waits, too old by now" in commands_text(found, 700_000)
    assert commands_text([], 0) == "no command was given"
    for choice, ids in (
        (CommandFilter(stream="a"), [""]), (CommandFilter(id="2"), ["2"]),
        (CommandFilter(reason="well"), ["2"]), (CommandFilter(since=1000, until=2000), ["1"]),
    ):  # fmt: skip
        assert [each.id for each in found if choice.takes(each)] == ids
    whole = command_text(found[2], 61_000)
    assert "by: bob\nwhy: not said" not in whole
    assert whole.startswith("id: 2\ncommand: skip \\x1b[2J 4\nview: board\nby: bob\ngiven: ")
    assert whole.endswith("answer: well")


def test_what_was_refused_does_not_wait_where_nobody_notes_what_is_read() -> None:
    halt = Command("halt", "board", who="ann", id="1", given=1000)
    told = {
        **orjson.loads(orjson.dumps(halt)), "when": 9, "done": False, "message": "runs on Spark",
    }  # fmt: skip
    assert [each.state for each in merged([pending_command(halt, 0), answered_command(told)])] == [
        "refused"
    ]
    told["message"] = "has no stream 'a'"
    assert [each.state for each in merged([answered_command(told), pending_command(halt, 0)])] == [
        "waits"
    ]


def test_a_command_to_a_view_waits_as_long_as_it_does_in_one_partition() -> None:
    halt = Command("halt", "board", who="ann", id="5f21", given=1000, expires=601_000)
    body = {**orjson.loads(orjson.dumps(halt)), "when": 2000, "done": True, "message": "is halted"}
    done, waits = answered_command(body), pending_command(halt, 0)
    taken_back = answered_command({**body, "done": False, "outcome": "cancelled"})
    for found, state, message in (
        ([waits, done], "waits", "carried out in 1 of 2 partitions"),
        ([waits, taken_back, done], "waits", "cancelled in 1, carried out in 1 of 3 partitions"),
        ([done, taken_back], "carried out", "carried out in 1, cancelled in 1 of 2 partitions"),
        ([done, done], "carried out", "is halted"),
        ([waits, waits], "waits", ""),
    ):
        [told] = merged(found)
        assert (told.state, told.message) == (state, message)
    text = commands_text(merged([waits, done]), 61_000)
    assert "waits, for 9 min more  carried out in 1 of 2 partitions" in text
    assert text.endswith("1 command, 1 waiting")
    # One partition has a stream: what the others have to say of it does not matter.
    skip = Command("skip", "board", "a", 4, id="7", everywhere=True)
    body = {**orjson.loads(orjson.dumps(skip)), "when": 2000, "done": True, "message": "well"}
    [told] = merged([pending_command(skip, 0), answered_command(body)])
    assert (told.state, told.message) == ("carried out", "well")


def test_a_clock_that_is_behind_hides_no_parked_stream() -> None:
    parked = ParkedStream("v", 0, "s", 21_600_000, 7, 1, None)
    found = ParkedStreams(0, [parked])
    assert found.older(0).streams == [parked]
    assert found.older(1).streams == []


def test_what_is_left_out_is_not_said_to_be_nothing() -> None:
    found = ParkedStreams(0, [ParkedStream("v", 0, "s", 0, 7, 1, None)]).older(0, stream="t")
    assert parked_text(found, 10) == "no such stream is parked; 1 other is"
    assert [*groups_text(found)] == ["0 parked streams in 0 groups; 1 other is parked"]
    assert parked_text(ParkedStreams(0, []), 10) == "no stream is parked"


def test_a_dry_run_is_listed_as_one() -> None:
    body = {"id": "1", "name": "skip", "view": "v", "stream": "a", "sequence": 4, "who": "ann"}
    told = answered_command(
        {**body, "done": True, "when": 5, "message": "would skip", "dry_run": True, "force": True}
    )
    assert told.line == "skip a 4 --force --dry-run"
    # Nobody has given it: it says that the first stage of a view need not know the stream.
    assert pending_command(Command("redrive", "v", "a", force=True), 0).line == "redrive a"
    assert pending_command(Command("halt", "v", dry_run=True), 0).line == "halt --dry-run"
