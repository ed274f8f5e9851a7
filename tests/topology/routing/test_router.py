"""The compiled router is the naive one, only faster; its trail is how it decided."""

from enum import Enum
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.routing.messages import by_length, message
from tests.topology.routing.reference import NaiveRouter
from topology import header, key
from topology.routing import (
    Detail,
    FunctionKeys,
    JsonKeys,
    Keymap,
    RoutedSource,
    Rule,
    RuleSet,
    Target,
    all_of,
    any_of,
    none_of,
    when,
)

TAGS, DESTINATIONS, KEYS = ["a", "b", "5"], ["d0", "d1", "d2"], ["x", "y"]
VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from([*TAGS, "abc", "7", "1.5", 2.5])
)
BODY = st.dictionaries(
    st.sampled_from(KEYS), st.one_of(VALUE, st.lists(VALUE, max_size=3)), max_size=2
)


def conditions(maps: list[str]) -> st.SearchStrategy[Any]:
    plain = st.builds(
        lambda key, keymap, test: when(key, keymap=keymap, **dict([test])),
        st.sampled_from(KEYS),
        st.sampled_from([None, *maps]),
        st.one_of(
            st.tuples(st.just("equals"), st.sampled_from([*TAGS, "true", "7"])),
            st.tuples(st.just("one_of"), st.lists(st.sampled_from(TAGS), min_size=1)),
            st.tuples(st.just("starts_with"), st.sampled_from(["a", "1"])),
            st.tuples(st.just("exists"), st.booleans()),
            st.tuples(
                st.sampled_from(["over", "at_least", "under", "at_most"]), st.integers(-3, 9)
            ),
        ),
    )
    return st.recursive(
        plain,
        lambda inner: st.builds(
            lambda make, inside: make(*inside),
            st.sampled_from([all_of, any_of, none_of]),
            st.lists(inner, min_size=1, max_size=3),
        ),
        max_leaves=4,
    )


@st.composite
def rule_sets(draw: st.DrawFn) -> tuple[RuleSet, NaiveRouter, list[str]]:
    """Rules of which each leads only to later ones, so that there is no circle."""
    maps = [
        Keymap(
            name,
            draw(
                st.dictionaries(
                    st.sampled_from([*TAGS, "7", "true"]),
                    st.lists(st.sampled_from(TAGS), min_size=1, max_size=2, unique=True),
                    max_size=4,
                )
            ),
            otherwise=draw(st.sampled_from([(), ("b",)])),
        )
        for name in ("m0", "m1")
    ]
    count = draw(st.integers(1, 6))
    rules, outbound = [], {}
    to = st.lists(st.sampled_from(DESTINATIONS), max_size=2, unique=True).map(tuple)
    for at in range(count):
        later = [f"r{n}" for n in range(at + 1, count)]
        then = st.lists(st.sampled_from(later), max_size=2, unique=True) if later else st.just([])
        targets = st.builds(Target, to, then.map(tuple)).filter(lambda t: bool(t.to or t.then))
        when_ = tuple(draw(st.lists(conditions(["m0", "m1"]), max_size=2)))
        if draw(st.booleans()):
            outbound[f"o{at}"] = draw(st.dictionaries(st.sampled_from(TAGS), targets, max_size=3))
            rules.append(
                Rule(
                    f"r{at}",
                    key=draw(st.sampled_from(KEYS)),
                    keymap=draw(st.sampled_from([None, "m0", "m1"])),
                    outbound=f"o{at}",
                    when=when_,
                    otherwise=draw(to),
                    to=draw(to),
                    then=tuple(draw(then)),
                )
            )
        else:
            end = draw(targets)
            rules.append(Rule(f"r{at}", when=when_, to=end.to, then=end.then))
    first = draw(st.lists(st.sampled_from([r.name for r in rules]), min_size=1, unique=True))
    compiled = RuleSet(
        1,
        sources=[RoutedSource("in", tuple(first))],
        rules=rules,
        destinations=dict.fromkeys(DESTINATIONS),
        keymaps=maps,
        outbound=outbound,
    )
    return compiled, NaiveRouter(rules, maps, outbound), first


@settings(max_examples=some(100), deadline=None)
@given(rule_sets(), st.lists(BODY, min_size=1, max_size=5))
def test_the_compiled_router_decides_as_the_naive_one(
    made: tuple[RuleSet, NaiveRouter, list[str]], bodies: list[dict[str, Any]]
) -> None:
    rules, naive, first = made
    for body in bodies:
        expected = naive.route(first, body)
        for detail in get_args(Detail):
            routing = rules.route(message(body), detail)
            assert routing.reason is None
            assert list(routing.destinations) == expected
        assert routing.trail is not None
        steps = routing.trail.steps
        assert [step.rule for step in steps] == naive.seen
        told = dict.fromkeys(name for step in steps for name in step.to)
        assert list(told) == expected
        assert all(step.why for step in steps)
        assert orjson.loads(orjson.dumps(routing.as_dict()))["destinations"] == expected
        assert str(routing).count("rule r") >= len(steps)


FLIGHTS = RuleSet(
    3,
    sources=[RoutedSource("in", ("maker", "late"), module="flight")],
    rules=[
        Rule("maker", key="tail", keymap="makers", outbound="makers"),
        Rule("big", when=(when("tail", keymap="seats", over=150),), to=("kafka-csv",)),
        Rule("late", when=(when("origin", equals="JFK"), when("delay", at_least=60)), to=("mq",)),
    ],
    destinations=dict.fromkeys(["kafka-json", "kafka-csv", "mq"]),
    keymaps=[
        Keymap("makers", [("N1", "boeing"), ("N2", "airbus")]),
        Keymap("seats", {"N1": 200, "N2": 182}),
    ],
    outbound={"makers": {"boeing": "kafka-json", "airbus": Target((), ("big",))}},
    modules={"flight": JsonKeys({"tail": "tail", "origin": "origin", "delay": "delay"})},
)


def test_rules_cascade_and_the_trail_says_why_each_fired_or_not() -> None:
    routing = FLIGHTS.route(message({"tail": "N2", "origin": "JFK", "delay": 59}), "all")
    assert routing.destinations == ("kafka-csv",)
    assert str(routing).splitlines() == [
        "in/0/0 to kafka-csv (rules 3)",
        "  module flight: tail='N2', origin='JFK', delay=59",
        "  rule maker fired: it has no condition, tail is 'N2'",
        "    tags airbus",
        "    then rules big",
        "  rule big fired: all conditions hold",
        "    → kafka-csv",
        "  rule late did not fire: delay at least 60 does not hold, as delay is 59",
    ]
    small = FLIGHTS.route(message({"tail": "N2"}), "all")
    assert small.trail is not None
    assert [step.fired for step in small.trail.steps] == [True, True, False]
    coarse = FLIGHTS.route(message({"tail": "N2"}), "fired")
    assert coarse.trail is not None
    assert [step.rule for step in coarse.trail.steps] == ["maker", "big"]
    assert coarse.header == ("sequitur-rules", b"3")


def test_no_destination_is_an_outcome_and_a_malformed_message_another() -> None:
    assert FLIGHTS.route(message({"tail": "N3"})).outcome == "unrouted"
    broken = FLIGHTS.route(message(b"{"), "all")
    assert (broken.outcome, broken.destinations) == ("failed", ())
    assert "not JSON" in str(broken.reason)
    strange = FLIGHTS.route(message({}, topic="else\x1b"), "all")
    assert strange.outcome == "failed"
    assert "\x1b" not in str(strange)


def test_a_message_may_name_its_tags_itself() -> None:
    rules = RuleSet(
        1,
        sources=[RoutedSource("in", ("own", "field", "keyed"), format="any")],
        rules=[
            Rule("own", key=header("to"), outbound="tags"),
            Rule("field", key="to", outbound="tags", module="declared"),
            Rule("keyed", when=(when(key(), starts_with="vip-"),), to=("vip",)),
        ],
        destinations=dict.fromkeys(["a", "b", "vip"]),
        outbound={"tags": {"x": "a", "y": ["b", "a"]}},
        modules={"declared": FunctionKeys(lambda m: {"to": (m.value or b"")[:1]})},
    )
    assert rules.route(message(b"?", {"to": b"y, x"})).destinations == ("b", "a")
    assert rules.route(message(b"x", key=b"vip-1")).destinations == ("a", "vip")
    assert rules.route(message(b"?", {"to": b"z"})).outcome == "unrouted"
    assert "'to' is not UTF-8" in str(rules.route(message(b"?", {"to": b"\xff"})).reason)


def test_a_rule_s_own_module_fails_the_message_only_where_the_rule_looks() -> None:
    rules = RuleSet(
        1,
        sources=[RoutedSource("in", ("first",))],
        rules=[
            Rule("first", when=(when("n", over=1),), to=("a",), then=("own",)),
            Rule("own", when=(when("length", over=5),), to=("b",), module="length"),
        ],
        destinations={"a": None, "b": None},
        modules={"length": FunctionKeys(by_length, names=["length"])},
    )
    routing = rules.route(message({"n": 2}), "all")
    assert routing.destinations == ("a", "b")
    assert "module length: length=7" in str(routing)
    assert rules.route(message({"n": 1})).outcome == "unrouted"


def test_a_trail_is_json_whatever_a_function_calls_its_keys() -> None:
    odd: dict[Any, Any] = {1: "one", "\ud800\x1b": "x", None: "y", "n": 7}
    rules = RuleSet(
        1,
        sources=[RoutedSource("in", ("own",), module="odd")],
        rules=[Rule("own", when=(when("n", over=5),), to=("a",), module="odd")],
        destinations={"a": None},
        modules={"odd": FunctionKeys(lambda _: odd)},
    )
    routing = rules.route(message(b""), "all")
    trail = orjson.loads(orjson.dumps(routing.as_dict()))["trail"]
    assert trail["keys"] == {"1": "one", "\\ud800\\x1b": "x", "None": "y", "n": 7}
    assert trail["keys"] == trail["rules"][0]["keys"]
    assert "\x1b" not in str(routing)


@settings(max_examples=some(100), deadline=None)
@given(st.binary(max_size=60), st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=9))))
def test_no_message_raises(value: bytes, headers: list[tuple[str, bytes]]) -> None:
    found = message(value)
    found.headers = headers
    routing = FLIGHTS.route(found, "all")
    assert routing.outcome in ("failed", "unrouted")
    assert str(routing)


@pytest.mark.parametrize("length", [1000])
def test_a_long_cascade_is_no_recursion(length: int) -> None:
    rules = [Rule(f"r{n}", to=("d",), then=(f"r{n + 1}",)) for n in range(length)]
    many = RuleSet(
        1,
        sources=[RoutedSource("in", ("r0",))],
        rules=[*rules, Rule(f"r{length}", to=("d",))],
        destinations={"d": None},
    )
    assert many.route(message(b"no JSON is needed")).destinations == ("d",)


class Maker(str, Enum):  # noqa: UP042
    BOEING = "boeing"


class Seats(int, Enum):
    LARGE = 400


def test_a_member_of_an_enum_is_the_text_or_number_that_it_stands_for() -> None:
    rules = RuleSet(
        1,
        sources=[RoutedSource("in", ("same", "any", "keyed"), module="m")],
        rules=[
            Rule("same", when=(when("maker", equals=Maker.BOEING),), to=("same",)),
            Rule("any", when=(when("seats", one_of=[Seats.LARGE]),), to=("any",)),
            Rule("keyed", key="maker", keymap="makers", outbound="o"),
        ],
        destinations=dict.fromkeys(["same", "any", "keyed"]),
        keymaps=[Keymap("makers", {Maker.BOEING: Seats.LARGE})],
        outbound={"o": {Seats.LARGE: "keyed"}},
        modules={"m": FunctionKeys(lambda _: {"maker": Maker.BOEING, "seats": Seats.LARGE})},
    )
    assert rules.keymaps["makers"].entries == {"boeing": ("400",)}
    assert rules.route(message(b"")).destinations == ("same", "any", "keyed")


@pytest.mark.parametrize("by_header", [False, True])
@pytest.mark.parametrize("different", [False, True])
def test_a_rule_of_a_chain_looks_once_however_often_a_message_names_its_tag(
    by_header: bool, different: bool
) -> None:
    tags = [f"x{n}" if different else "x" for n in range(600)]
    targets: list[Any] = [Target((), (f"r{n + 1}",)) for n in range(4)]
    many = RuleSet(
        1,
        sources=[RoutedSource("in", ("r0",))],
        rules=[
            Rule(f"r{n}", key=header("to") if by_header else "to", outbound=f"o{n}")
            for n in range(5)
        ],
        destinations={"d": None},
        outbound={f"o{n}": dict.fromkeys(tags, to) for n, to in enumerate([*targets, "d"])},
    )
    one = message({} if by_header else {"to": tags}, {"to": ",".join(tags).encode()})
    routing = many.route(one, "all")
    assert routing.destinations == ("d",)
    assert many.fired == {f"r{n}": 1 for n in range(5)}
    assert routing.trail is not None
    assert [step.tags for step in routing.trail.steps] == [tuple(dict.fromkeys(tags))] * 5


def test_the_trail_of_a_condition_on_a_keymap_tells_what_the_keymap_says() -> None:
    rules = RuleSet(
        1,
        sources=[RoutedSource("in", ("big",))],
        rules=[Rule("big", when=(when("tail", keymap="seats", over=150),), to=("d",))],
        destinations={"d": None},
        keymaps=[Keymap("seats", {"N3": 50})],
    )
    assert str(rules.route(message({"tail": "N3"}), "all")).endswith(
        "seats[tail] over 150 does not hold, as tail is 'N3', of which keymap seats says ('50',)"
    )
