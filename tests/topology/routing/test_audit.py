"""The audit finds every message that is lost, doubled, or not where the rules of its version sent
it; and control records are read as they were written, and nothing else is."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from topology import Record
from topology.routing import (
    Agreement,
    ControlRecord,
    Endpoint,
    Failed,
    Joined,
    JsonKeys,
    Keymap,
    Left,
    Loaded,
    Propose,
    Register,
    RoutedSource,
    Rule,
    RuleSet,
    Trace,
    Unregister,
    decode_control,
    encode_control,
)
from topology.routing.audit import RouteAudit

TAGS: dict[int, dict[str, Any]] = {
    1: {"0": "a", "1": "b", "2": ("a", "b")},
    2: {"0": "b", "1": "b"},
}


def rules(number: int) -> RuleSet:
    return RuleSet(
        number,
        sources=[RoutedSource("in", ("all",), module="m")],
        rules=[Rule("all", key="k", keymap="map", outbound="to")],
        destinations={"a": None, "b": None},
        keymaps=[Keymap("map", TAGS[number])],
        outbound={"to": {"a": "a", "b": "b"}},
        modules={"m": JsonKeys({"k": "k"})},
    )


RULES = {number: rules(number) for number in TAGS}
KINDS = [b'{"k":0}', b'{"k":1}', b'{"k":2}', b'{"k":3}', b"no JSON"]


def audited(
    messages: list[Record], sent: list[tuple[int, str, int]], failed: list[int]
) -> RouteAudit:
    audit = RouteAudit(RULES, lambda each: each.destination)
    for offset, topic, version in sent:
        audit.made(("in", 0, offset), topic, version)
    for offset in failed:
        audit.refused(("in", 0, offset))
    audit.partition(messages, 2)
    audit.left()
    return audit


@settings(deadline=None, max_examples=some(80))
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=20), st.data())
def test_what_is_right_is_clean_and_each_harm_is_found(
    kinds: list[bytes], data: st.DataObject
) -> None:
    switch = data.draw(st.integers(0, len(kinds)))
    messages = [Record("in", 0, n, None, body) for n, body in enumerate(kinds)]
    sent, failed = [], []
    for each in messages:
        routing = RULES[1 if each.offset < switch else 2].route(each)
        sent += [(each.offset, to, routing.version) for to in routing.destinations]
        failed += [each.offset] if routing.reason else []
    clean = audited(messages, sent, failed)
    assert (clean.wrong, clean.failed, clean.unchecked) == (0, len(failed), {})
    assert clean.consumed == clean.routed + clean.unrouted + clean.failed == len(kinds)
    assert sum(clean.sent.values()) == len(sent)
    if not sent:
        return
    at = data.draw(st.integers(0, len(sent) - 1))
    offset, to, version = sent[at]
    rest = sent[:at] + sent[at + 1 :]
    other = "b" if to == "a" else "a"
    assert audited(messages, [*sent, sent[at]], failed).wrong  # twice
    assert audited(messages, [*sent, (len(kinds), to, 2)], failed).wrong  # of no message
    assert audited(messages, sent, [*failed, offset]).wrong  # routed, and failed
    if (offset, other, version) not in sent:
        assert audited(messages, [*rest, (offset, other, version)], failed).wrong  # elsewhere
    # A lost one may look unrouted only where the other version does send it nowhere.
    lost = audited(messages, rest, failed)
    assert lost.wrong or kinds[offset] == KINDS[2]


@pytest.mark.parametrize("missing", [1, 2])
def test_what_no_rules_are_given_for_is_not_said_to_be_right(missing: int) -> None:
    audit = RouteAudit({3 - missing: RULES[3 - missing]}, lambda each: each.destination)
    audit.made(("in", 0, 0), "b", missing)
    audit.partition([Record("in", 0, 0, None, KINDS[1])], missing)
    assert audit.unchecked == {missing: 1}
    assert "not routed again: 1 messages" in "\n".join(audit.lines())


NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
RECORDS = st.one_of(
    st.builds(Joined, NAMES),
    st.builds(Left, NAMES),
    st.builds(Propose, st.frozensets(NAMES), st.none() | NAMES, st.integers(0, 99), NAMES, NAMES),
    st.builds(Register, st.sampled_from([Endpoint("e", "a"), Endpoint("f", "b", "xml")]), NAMES),
    st.builds(Unregister, NAMES, NAMES),
    st.builds(Trace, st.sampled_from(["none", "fired", "all"]), st.integers(1, 99), NAMES),
    st.builds(Loaded, NAMES, st.integers(0, 99), NAMES),
    st.builds(Failed, NAMES, st.integers(0, 99), NAMES),
)


@settings(deadline=None, max_examples=some(100))
@given(RECORDS)
def test_control_records_are_read_as_they_were_written(record: ControlRecord) -> None:
    assert decode_control(encode_control(record)) == record


@settings(deadline=None, max_examples=some(100))
@given(
    st.binary(max_size=50)
    | st.sampled_from(
        [
            b'{"kind":"nothing"}',
            b'{"kind":"joined","process":7}',
            b'{"kind":"loaded","process":"p","version":-1,"digest":""}',
            b'{"kind":"trace","detail":"much"}',
            b'{"kind":"trace","detail":"all","every":0}',
            b'{"kind":"register","endpoint":{"name":"a b","destination":"d"}}',
            b'{"kind":"propose","stale":"makers"}',
            b'{"kind":["joined"],"process":"p"}',
        ]
    )
)
def test_what_is_no_control_record_is_refused_and_nothing_else_happens(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_control(value)


def test_what_is_registered_is_in_the_next_version_or_is_refused_with_it() -> None:
    at = Agreement()
    for record in (Joined("p"), Propose(), Loaded("p", 1, "d"), Register(Endpoint("e", "a"))):
        at = at.after(record)
    assert at.version == 1
    assert not at.endpoints
    assert at.after(Loaded("p", 2, "d")).endpoints == {"e": Endpoint("e", "a")}
    refused = at.after(Failed("p", 2, "no such destination"))
    assert not refused.endpoints
    assert refused.version == 1
    assert not at.after(Unregister("e")).after(Loaded("p", 3, "d")).endpoints
    assert at.after(Propose(above=40)).highest == 41


def test_two_destinations_of_one_topic_send_it_what_is_for_both() -> None:
    audit = RouteAudit(RULES, lambda each: "both")
    for _ in range(2):
        audit.made(("in", 0, 0), "both", 1)
    audit.partition([Record("in", 0, 0, None, KINDS[2])], 1)
    audit.left()
    assert audit.wrong == 0
    for _ in range(3):
        audit.made(("in", 0, 1), "both", 1)
    audit.partition([Record("in", 0, 1, None, KINDS[2])], 1)
    assert audit.wrongs == ["in/0/1 is 3 times in both, to which rules 1 send it 2 times"]


def test_what_compaction_took_is_not_said_to_be_missing() -> None:
    audit = RouteAudit(RULES, lambda each: each.destination, {"in", "a"})
    audit.made(("in", 0, 0), "b", 1)  # whose message is gone
    audit.refused(("in", 0, 1))
    audit.made(("in", 0, 3), "b", 1)
    messages = [Record("in", 0, 2, None, KINDS[0]), Record("in", 0, 3, None, KINDS[2])]
    audit.partition(messages, 1)
    audit.left()
    assert (audit.wrong, audit.unchecked) == (0, {})
    assert (audit.consumed, audit.routed, audit.failed, audit.away) == (4, 2, 1, 1)
    said = "\n".join(audit.lines())
    assert "1 perhaps compacted away" in said
    assert "compacted, so that nothing is said to be missing, or counted, there: a, in" in said
