"""What a group's consumers tell each other comes to the same for whoever reads it."""

from typing import Any

import orjson

from stores.replay.recovering.group_log import GroupLog, partition_key, request_key
from stores.replay.recovering.switch import PartitionSwitch

RUNNING = {
    "recovery": "of the server",
    "server": "http://there",
    "topics": {"t": "t.recovery.x"},
    "positions": {"t": {"0": 5, "1": 7}},
    "through_router": False,
}


def say(log: GroupLog, request: str, step: str, said: Any) -> None:
    log.fold(request_key(request, step), None if said is None else orjson.dumps(said))


def stop(log: GroupLog, request: str, partition: int, position: int) -> PartitionSwitch:
    switch = PartitionSwitch(position=position)
    switch.stop(request)
    keep(log, partition, switch)
    return switch


def keep(log: GroupLog, partition: int, switch: PartitionSwitch) -> None:
    log.fold(partition_key(("t", partition)), orjson.dumps(switch.to_json()))


def test_a_recovery_is_under_way_until_all_partitions_are_back() -> None:
    log = GroupLog()
    say(log, "r", "asked", {"topics": ["t"]})
    switches = [stop(log, "r", 0, 5), stop(log, "r", 1, 7)]
    request = log.requests["r"]
    assert [log.stopped_at(request, ("t", n)) for n in (0, 1, 2)] == [5, 7, None]
    say(log, "r", "running", RUNNING)
    assert request.positions == {"t": {0: 5, 1: 7}}
    for number, switch in enumerate(switches):
        assert log.active() is request
        switch.begin()
        switch.leave()
        keep(log, number, switch)
    assert log.active() is None


def test_the_first_of_two_counts_and_what_has_ended_stays_so_whatever_comes_later() -> None:
    log = GroupLog()
    say(log, "first", "asked", {"topics": ["t"]})
    say(log, "second", "asked", {"topics": ["t"]})
    assert log.active() is log.requests["first"]
    say(log, "first", "ended", {"reason": "nobody began it"})
    say(log, "first", "running", RUNNING)  # by who was slow
    assert log.active() is log.requests["second"]
    say(log, "second", "ended", {"reason": "another one was faster"})
    assert log.active() is None
    for step in ("asked", "running", "ended"):
        say(log, "first", step, None)
    assert list(log.requests) == ["second"]


def test_records_that_are_none_of_these_are_passed_over() -> None:
    log = GroupLog()
    for key in (None, b"\xff", b"1", b'["partition", 1, 2]', b'["other"]'):
        log.fold(key, b"{}")
    log.fold(partition_key(("t", 0)), b"no JSON")
    assert (log.partitions, log.requests) == ({}, {})


def test_a_request_s_outcome_is_known_also_when_the_next_one_has_begun() -> None:
    log = GroupLog()
    assert log.outcome("r") == "nothing is known of it any more"
    say(log, "r", "asked", {"topics": ["t"]})
    switches = [stop(log, "r", 0, 5), stop(log, "r", 1, 7)]
    say(log, "r", "running", RUNNING)
    assert log.outcome("r") is None
    for number, switch in enumerate(switches):
        switch.leave()
        keep(log, number, switch)
    assert log.outcome("r") == ""
    say(log, "early", "asked", {"topics": ["t"]})
    for reason in ("cancelled", "by another one, later"):
        say(log, "early", "ended", {"reason": reason})
    assert log.outcome("early") == "cancelled"
    for id in ("r", "early"):
        for step in ("asked", "running", "ended"):
            say(log, id, step, None)
    for number in (0, 1):
        stop(log, "next", number, 9)
    assert [log.outcome(id) for id in ("r", "early")] == ["", "cancelled"]
