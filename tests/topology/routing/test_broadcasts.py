"""A broadcast reaches every listener of its scope, once; listeners expire by the log alone."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.routing.messages import message
from topology import DeclarationError, Topology
from topology.engine.route_task import RouteTask
from topology.routing import (
    ACTION,
    BROADCAST,
    Agreement,
    Endpoint,
    Joined,
    Listening,
    Loaded,
    Register,
    RoutedSource,
    Rule,
    RuleSet,
    Unregister,
    decode_control,
    encode_control,
    read_toml,
    rules_from,
)

SITES, UNITS, ACTIONS = ("", "berlin", "oslo"), ("", "shop", "bank"), ("start", "stop")
names = st.sampled_from(["a", "b", "c", "d"])
listenings = st.builds(
    Listening,
    st.floats(1, 1e5),
    st.text("xyz", min_size=1, max_size=3),
    st.sampled_from(SITES),
    st.sampled_from(UNITS),
    st.sets(st.sampled_from(ACTIONS)).map(sorted).map(tuple),
    st.booleans(),
)
endpoints = st.builds(
    Endpoint,
    names,
    st.sampled_from(["left", "right"]),
    st.none(),
    st.none() | listenings,
)
scopes = st.sampled_from(["unit", "site", "all sites"])
broadcasts = st.lists(st.tuples(scopes, st.sampled_from([None, *ACTIONS])), min_size=1, max_size=3)


def rules(said: list[Any], registered: list[Endpoint] = []) -> RuleSet:  # noqa: B006
    made = [Rule(f"r{n}", broadcast=scope, action=action) for n, (scope, action) in enumerate(said)]
    return RuleSet(
        1,
        sources=[RoutedSource("in", ("left", *(rule.name for rule in made)))],
        rules=[Rule("left", to=("left",)), *made],
        destinations={"left": None, "right": None},
        endpoints=registered,
        site="berlin",
        unit="shop",
    )


def reached(listening: Listening | None, scope: str) -> bool:
    if listening is None:
        return False
    berlin = listening.site in ("", "berlin")
    return {
        "unit": berlin and listening.unit in ("", "shop"),
        "site": berlin,
        "all sites": True,
    }[scope]


@given(broadcasts, st.lists(endpoints, unique_by=lambda each: each.name))
def test_every_listener_of_the_scope_gets_it_once_and_is_told_the_actions_that_it_knows(
    said: list[Any], registered: list[Endpoint]
) -> None:
    found = rules(said, registered)
    made = found.make(found.route(message(b"{}")))
    got = {each.endpoint: each.broadcast for each in made}
    assert len(got) == len(made)
    for each in registered:
        own = each.listening
        heard = [action for scope, action in said if reached(own, scope)]
        plain = each.destination == "left" and not (own and own.only)
        assert (each.name in got) == (bool(heard) or plain)
        if heard:
            known = dict.fromkeys(action for action in heard if own and action in own.actions)
            assert got[each.name] == tuple(known)
        elif plain:
            assert got[each.name] is None


@given(broadcasts, st.lists(endpoints, unique_by=lambda each: each.name))
def test_what_is_a_broadcast_already_is_not_broadcast_again(
    said: list[Any], registered: list[Endpoint]
) -> None:
    found = rules(said, registered)
    routing = found.route(message(b"{}", {BROADCAST: b"oslo/bank/in/0/7"}), "all")
    assert routing.destinations == ("left",)
    assert "sequitur-broadcast" in str(routing)
    assert all(each.broadcast is None for each in found.make(routing))


def stage(registered: list[Endpoint]) -> RouteTask:
    topology = Topology("t")
    said = rules_from(
        read_toml(
            '[source.in]\nrules = ["halt"]\n[rule.halt]\nwhen = { key = "halt", equals = true }\n'
            'broadcast = "site"\naction = "stop"\n[destination.left]\n'
        ),
        1,
        site="berlin",
        unit="shop",
    )
    task = RouteTask(topology, topology.route("r", rules=said))
    task.rules = said.with_endpoints(2, registered)
    return task


def test_a_broadcast_without_a_listener_is_counted_as_unrouted() -> None:
    for registered in ([], [Endpoint("far", "left", None, Listening(9, "x", "oslo"))]):
        task = stage(registered)
        unit = task.process([message(b'{"halt": true}')], 0)
        assert (task.intake.read, task.intake.unknown, unit.keyed) == (1, 1, {})


def test_the_headers_of_a_broadcast_stand_behind_what_the_message_itself_brings() -> None:
    forged = {ACTION: b"start", "sequitur-rules": b"7"}
    task = stage([Endpoint("ear", "left", None, Listening(9, "x", actions=("stop",), only=True))])
    unit = task.process([message(b'{"halt": true}', forged, offset=5)], 0)
    ((_, value, _, headers),) = unit.keyed["left.ear"]
    assert value == b'{"halt": true}'
    assert headers[-3:] == [
        ("sequitur-rules", b"2"),
        (BROADCAST, b"berlin/shop/in/0/5"),
        (ACTION, b"stop"),
    ]


orders = st.one_of(
    st.builds(Register, endpoints),
    st.builds(Unregister, names, session=st.text("xyz", max_size=3)),
    st.just(Joined("p")),
    st.builds(Loaded, st.just("p"), st.integers(1, 40), st.just("d")),
)


@given(st.lists(orders, max_size=30))
@settings(max_examples=some(200))
def test_an_expiry_takes_what_it_is_about_and_nothing_that_was_registered_since(
    log: list[Any],
) -> None:
    at = Agreement()
    for record in log:
        before, at = at, at.after(decode_control(encode_control(record)))
        open_ = (before.proposal or before).endpoints.get(str(getattr(record, "endpoint", "")))
        if isinstance(record, Unregister) and record.session:
            own = open_.listening if open_ else None
            gone = own is not None and own.session == record.session
            assert (at == before) == (not gone)
            if gone:
                assert at.proposal is not None
                assert record.endpoint not in at.proposal.endpoints
        if isinstance(record, Register):
            assert at.proposal is not None
            assert at.proposal.endpoints[record.endpoint.name] == record.endpoint


WRONG: list[Any] = [
    lambda: Rule("r", action="stop", to=("left",)),
    lambda: Rule("r", broadcast="everywhere"),  # type: ignore[arg-type]
    lambda: Rule("r", broadcast="site", action="rm -rf"),
    lambda: Listening(float("nan"), "x"),
    lambda: Listening(9, ""),
    lambda: Listening(9, "x", actions=("a b",)),
    lambda: Listening(9, "x", "a/b"),
    lambda: Endpoint("left", "left", None, Listening(9, "x", only=True)),
]


@pytest.mark.parametrize("make", WRONG)
def test_what_means_nothing_is_refused(make: Any) -> None:
    with pytest.raises(DeclarationError):
        make()


def test_versions_with_other_listeners_have_other_digests() -> None:
    one = Endpoint("a", "left", None, Listening(9, "x"))
    assert one.listening is not None
    other = replace(one, listening=replace(one.listening, session="y"))
    assert len({rules([("site", None)], some).digest for some in ([], [one], [other])}) == 3
