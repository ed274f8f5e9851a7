"""Patterns over error records: what makes an alert, and what does not."""

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.diagnostics import alerts as module
from topology.diagnostics.alerts import Alert, AlertPattern, Alerts, fields_of
from topology.model.event import Record
from topology.model.origin_headers import ORIGIN, REASON

TRACE = """Traceback (most recent call last):
  File "/app/shop/charge.py", line 12, in charge
    pay(event)
  File "/app/shop/bank.py", line 40, in pay
    raise Refused("card 17")
Refused: card 17
"""


def record(topic: str = "shop.errors", at: int = 0, **report: object) -> Record:
    return Record(topic, 0, at, b"A", orjson.dumps(report), [("view", b"charges")], at)


def fields(**more: str) -> dict[str, str]:
    return {"topic": "shop.errors", **more}


def test_what_a_replay_published_again_is_not_alerted_on() -> None:
    found = record(error="Refused: card 17")
    assert fields_of(found) is not None
    assert fields_of(replace(found, headers=[*found.headers, ("sequitur-replay", b"r")])) is None


@pytest.mark.parametrize("name", [ORIGIN, REASON, "sequitur-failed-reason"])
def test_a_failure_of_a_message_that_a_replay_published_again_is_alerted_on(name: str) -> None:
    """What tells of a message has its headers, and its own behind them."""
    own, replay = (name, b"shop.events/0/7"), ("sequitur-replay", b"r")
    failed = Record("shop.dead", 0, 0, b"A", b"", [replay, ("view", b"charges"), own], 0)
    assert fields_of(failed) is not None
    assert fields_of(replace(failed, headers=[*failed.headers, replay])) is None


def told(alerts: Alerts, times: list[int], **more: str) -> list[Alert]:
    return [alert for time in times for alert, _ in alerts.note(fields(**more), time)]


def test_an_error_is_known_by_its_exception_and_its_stack_not_by_its_message() -> None:
    one, two = (
        fields_of(record(error=f"Refused: card {n}", traceback=TRACE, sequence=n, done="advance"))
        for n in (1, 2)
    )
    assert one is not None
    assert two is not None
    assert one["exception"] == "Refused"
    assert one["stack"] == "charge.py:charge > bank.py:pay"
    assert one["view"] == "charges"
    assert one["sequence"] == "1"
    differ = {name for name in one if one[name] != two[name]}
    assert differ == {"error", "sequence"}


def test_what_is_handled_after_all_is_no_error() -> None:
    assert fields_of(record(error="", done="handled in a rebuild")) is None


@pytest.mark.parametrize("error", [None, "", False, 0])
@pytest.mark.parametrize("topic", ["shop.dead", "shop.late", "shop.malformed"])
def test_a_message_that_says_itself_that_there_is_no_error_is_alerted_on(
    topic: str, error: object
) -> None:
    for done in ("", "handled in a rebuild"):
        found = fields_of(record(topic, id="a", error=error, done=done))
        assert found is not None
        assert found["id"] == "a"


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("sequitur-reason", b"rule 'maker': it is no JSON"),
        ("sequitur-failed-reason", b"Malformed: rule 'maker': it is no JSON"),
    ],
)
def test_what_one_rule_fails_on_is_an_alert_of_that_rule(header: str, reason: bytes) -> None:
    found = fields_of(Record("shop.malformed", 0, 0, b"A", b"no JSON", [(header, reason)], 0))
    assert found is not None
    assert found["rule"] == "maker"
    assert found["reason"] == reason.decode()
    other = fields_of(Record("shop.malformed", 0, 0, b"A", b"x", [(header, b"no JSON")], 0))
    assert other is not None
    assert "rule" not in other
    alerts = Alerts((AlertPattern("p", 3, 60, same=("rule", "key")),))
    assert [len(alerts.note(found, at)) for at in (0, 1, 2)] == [0, 0, 1]


@given(st.binary(), st.binary(), st.text())
def test_any_record_has_fields(value: bytes, header: bytes, name: str) -> None:
    found = fields_of(Record("t", 0, 0, value, value, [("view", header), (name, header)], 0))
    assert found is not None
    assert found["topic"] == "t"
    alerts = Alerts((AlertPattern("p", 1, 1, same=tuple(found)),))
    for alert, _ in alerts.note(found, 10**18):
        assert "\n" not in alert.subject
        str(alert)
        orjson.dumps(alert.as_dict())


def test_so_many_of_one_kind_within_the_time_are_an_alert() -> None:
    alerts = Alerts((AlertPattern("p", 3, 10, same=("view",), where={"done": "park"}),))
    assert told(alerts, [0, 1, 2], view="a", done="advance") == []
    assert told(alerts, [0, 9_000], view="a", done="park") == []
    assert told(alerts, [10_500], view="b", done="park") == []
    (alert,) = told(alerts, [10_000], view="a", done="park")
    assert (alert.group, alert.count, alert.first, alert.last) == ({"view": "a"}, 3, 0, 10_000)
    assert alert.subject == "p: 3 of view a"
    assert "done: park" in str(alert)


def test_after_an_alert_it_is_quiet_about_the_group_and_counts() -> None:
    alerts = Alerts((AlertPattern("p", 2, 10, same=("view",), quiet=60),))
    assert len(told(alerts, [0, 1, 2, 3, 4], view="a")) == 1
    assert len(told(alerts, [5, 6], view="b")) == 1
    (again,) = told(alerts, [60_001, 60_002], view="a")
    assert again.quiet == 3
    assert "3 other ones came" in str(again)


def test_a_pattern_is_about_its_topics() -> None:
    alerts = Alerts((AlertPattern("p", 1, 10, topics=frozenset({"shop.dead"})),))
    assert told(alerts, [0]) == []
    assert alerts.note({"topic": "shop.dead"}, 0)


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_GROUPS", 3)
    alerts = Alerts((AlertPattern("p", 3, 10, same=("stream",)),))
    for stream in "abcad":
        told(alerts, [0], stream=stream)
    assert alerts.forgotten == 1
    assert told(alerts, [1, 1], stream="b") == []  # it was quiet for longest
    assert told(alerts, [1], stream="a")


@given(
    st.lists(st.integers(0, 100), max_size=60),
    st.integers(1, 5),
    st.integers(1, 30),
    st.integers(0, 50),
)
def test_alerts_are_those_of_the_naive_way(
    times: list[int], count: int, within: int, quiet: int
) -> None:
    times = sorted(times)
    expected, since, told_at = [], list[int](), float("-inf")
    for time in times:
        if time < told_at + quiet:
            continue
        since.append(time)
        recent = [each for each in since if each >= time - within][-count:]
        if len(recent) == count:
            expected.append((recent[0], time))
            since, told_at = [], time
    alerts = Alerts((AlertPattern("p", count, within, quiet=quiet),))
    found = told(alerts, [time * 1000 for time in times])
    assert [(a.first, a.last) for a in found] == [(a * 1000, b * 1000) for a, b in expected]


@pytest.mark.parametrize("wrong", [{"count": 0}, {"count": 10_001}, {"within": 0}, {"quiet": -1}])
def test_a_wrong_pattern_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="pattern 'p'"):
        replace(AlertPattern("p", 1, 1), **wrong)  # type: ignore[arg-type]
