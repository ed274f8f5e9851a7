"""What is wrong with rules, tables and formats is refused when they are loaded, by name."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.topology.routing.messages import message, shout
from topology import DeclarationError, Malformed
from topology.routing import (
    CsvKeys,
    Endpoint,
    Formats,
    JsonKeys,
    Keymap,
    RoutedSource,
    Rule,
    RuleSet,
    Target,
    Transformation,
    compare,
    none_of,
    outbound_table,
    when,
)


def rule_set(*rules: Rule, number: int = 1, **given: Any) -> RuleSet:
    source = RoutedSource("in", (rules[0].name,))
    kept: dict[str, Any] = {"sources": [source], "destinations": {"kafka": None, "mq": None}}
    return RuleSet(number, rules=rules, **{**kept, **given})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Rule("r"), "it leads nowhere"),
        (lambda: Rule("r", key="k"), "its key leads nowhere"),
        (lambda: Rule("r", keymap="m", to=("kafka",)), "it has no key"),
        (lambda: Rule("r", to=("a", "a")), "'a': it is there twice"),
        (lambda: Rule("r", to=("a",), when=(none_of(),)), "has no condition"),
        (lambda: when("k"), "exactly one of"),
        (lambda: when("k", ovr=1), "did you mean 'over'"),
        (lambda: when("k", over=float("nan")), "give a number"),
        (lambda: when("k", over=2**64), "give a number"),
        (lambda: when("k", one_of="abc"), "give a list"),
        (lambda: Keymap("m", {"k": "x", 1: "y", "1": "z"}), "'1' is there twice"),
        (lambda: Keymap("m", [("k", "x"), ("k", "x")]), "tag 'x' is there twice"),
        (lambda: Keymap("m", [("k", "x", "y")]), r"a row is \(key, tag\)"),  # type: ignore[list-item]
        (lambda: Keymap("m", {"k": []}), "it has no tag"),
        (lambda: Keymap("m", {"\ud800": "x"}), "give text"),
        (lambda: Keymap("m", {"k" * 5000: "x"}), "1 to 4096 characters"),
        (lambda: outbound_table("o", {"t": ()}), "leads nowhere"),
        (lambda: outbound_table("o", [("t", "a", None), ("t", "a", None)]), "there twice"),
        (lambda: rule_set(Rule("r", to=("kafak",))), "did you mean 'kafka'"),
        (lambda: rule_set(Rule("rate", to=("mq",), then=("rats",))), "did you mean 'rate'"),
        (
            lambda: rule_set(Rule("r", key="k", outbound="o"), outbound={"o": {"t": "mqq"}}),
            "did you mean 'mq'",
        ),
        (
            lambda: rule_set(
                Rule("r", key="k", keymap="planse", otherwise=("mq",)),
                keymaps=[Keymap("planes", {})],
            ),
            "did you mean 'planes'",
        ),
        (
            lambda: rule_set(
                Rule("r", when=(when("tial", exists=True),), to=("mq",)),
                sources=[RoutedSource("in", ("r",), module="j")],
                modules={"j": JsonKeys({"tail": "tail"})},
            ),
            "did you mean 'tail'",
        ),
        (
            lambda: rule_set(
                Rule("a", to=("mq",), then=("b",)),
                Rule("b", key="k", outbound="o"),
                Rule("c", then=("a",)),
                outbound={"o": {"t": Target((), ("c",))}},
            ),
            "in a circle: a → b → c → a|circle: b → c → a → b|circle: c → a → b → c",
        ),
        (lambda: rule_set(Rule("r", to=("mq",)), number=0), "numbers from 1"),
    ],
)
def test_what_is_wrong_is_refused_by_name(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(DeclarationError, match=reason):
        make()


def test_a_table_s_rows_may_name_a_key_or_a_tag_several_times() -> None:
    assert Keymap("m", [("k", "x"), ("k", "y"), (7, "z")]).entries == {"k": ("x", "y"), "7": ("z",)}
    rows = [("t", "a", None), ("t", None, "r"), ("t", "b", "q")]
    assert outbound_table("o", rows) == {"t": Target(("a", "b"), ("r", "q"))}


def test_what_comes_of_a_set_is_in_the_same_order_in_every_process() -> None:
    tags = tuple(f"t{number}" for number in range(10, 40))
    assert Keymap("m", {"k": {*tags}}).entries == {"k": tags}
    assert Keymap("m", {}, otherwise=frozenset(tags)).otherwise == tags
    assert Keymap("m", {("k", tag) for tag in tags}).entries == {"k": tags}
    rows = {("t", tag, None) for tag in tags}
    assert outbound_table("o", rows) == {"t": Target(tags)}


def test_the_digest_is_that_of_the_content() -> None:
    def made(tag: str, over: int = 1) -> str:
        rule = Rule("r", key="k", keymap="m", otherwise=("mq",), when=(when("n", over=over),))
        return rule_set(rule, keymaps=[Keymap("m", {"k": tag})]).digest

    assert made("x") == made("x")
    assert len({made("x"), made("y"), made("x", 2)}) == 3

    def module(place: str) -> str:
        return rule_set(Rule("r", to=("mq",)), modules={"j": JsonKeys({"a": place})}).digest

    assert module("b") == module("b") != module("c")


CSV = Transformation("to-csv", "json", "csv", lambda content, _: b"csv of " + content)
XML = Transformation("to-xml", "csv", "xml", lambda content, _: b"xml of " + content)
LOUD = Transformation("loud", "json", "loud", f"{shout.__module__}:shout")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"destinations": {"mq": "xml"}}, "'mq' reads 'xml', but gets 'json'"),
        (
            {
                "sources": [RoutedSource("in", ("r",), module="csv")],
                "modules": {"csv": CsvKeys({"a": 1})},
            },
            "'csv' reads 'csv', but gets 'json'",
        ),
        (
            {"sources": [RoutedSource("in", ("r",), before=("to-xml",))], "transformations": [XML]},
            "'to-xml' reads 'csv', but gets 'json'",
        ),
        (
            {"sources": [RoutedSource("in", ("r",), before=("to_csv",))], "transformations": [CSV]},
            "did you mean 'to-csv'",
        ),
        ({"sources": [RoutedSource("in", ("r",), format="fix")]}, "no introspection module"),
    ],
)
def test_a_format_that_does_not_fit_is_refused(given: dict[str, Any], reason: str) -> None:
    rule = Rule("r", when=(when("a", exists=True),), to=("mq",))
    with pytest.raises(DeclarationError, match=reason):
        rule_set(rule, **{"destinations": {"mq": None}, **given})


def test_two_endpoints_of_a_message_get_two_formats_and_each_step_runs_once() -> None:
    ran: list[str] = []

    def counted(name: str) -> Callable[[bytes, Any], bytes]:
        return lambda content, _: ran.append(name) or name.encode()  # type: ignore[func-returns-value]

    rules = rule_set(
        Rule("r", to=("kafka", "mq", "file")),
        destinations={"kafka": "csv", "mq": "xml", "file": "xml"},
        transformations=[
            Transformation("to-csv", "json", "csv", counted("csv")),
            Transformation("to-xml", "csv", "xml", counted("xml")),
        ],
    )
    made = rules.make(rules.route(message({})))
    assert [(m.destination, m.format, m.content) for m in made] == [
        ("kafka", "csv", b"csv"),
        ("mq", "xml", b"xml"),
        ("file", "xml", b"xml"),
    ]
    assert ran == ["csv", "xml"]
    assert rules.plans(rules.formats)["in"].after == ("to-csv",)


def test_formats_follow_endpoints_that_register_while_running() -> None:
    rules = rule_set(Rule("r", to=("kafka",)), transformations=[CSV, XML, LOUD])
    formats = rules.formats
    assert rules.retired(formats) == ["to-csv", "to-xml", "loud"]
    formats = formats.register(Endpoint("store", "kafka", "xml"))
    plan = rules.plans(formats)["in"]
    assert (plan.after, dict(plan.users)) == (("to-csv", "to-xml"), {"xml": ("store",)})
    assert rules.retired(formats) == ["loud"]
    both = formats.register(Endpoint("screen", "kafka", "loud"))
    assert rules.plans(both)["in"].after == ()
    made = rules.make(rules.route(message({"a": 1})), both)
    assert [(m.endpoint, m.content) for m in made] == [
        ("store", b'xml of csv of {"a":1}'),
        ("screen", b'{"A":1}'),
    ]
    assert rules.retired(both.without("store")) == ["to-csv", "to-xml"]
    with pytest.raises(DeclarationError, match="did you mean 'store'"):
        both.without("stor")
    with pytest.raises(DeclarationError, match="no destination 'mq2' "):
        rules.plans(formats.register(Endpoint("e", "mq2")))
    with pytest.raises(DeclarationError, match="reads 'pdf'"):
        rules.plans(
            formats.register(Endpoint("e", "mq", "pdf")).register(Endpoint("f", "kafka", "pdf"))
        )


def test_transformations_before_routing_are_what_rules_see() -> None:
    upper = Transformation("upper", "text", "json", lambda content, _: content.upper())
    source = RoutedSource("in", ("r",), format="text", before=("upper",))
    rule = Rule("r", when=(when("A", equals="X"),), to=("mq",))
    rules = rule_set(rule, sources=[source], transformations=[upper])
    routing = rules.route(message(b'{"a": "x"}'))
    assert routing.destinations == ("mq",)
    assert [m.content for m in rules.make(routing)] == [b'{"A": "X"}']


def test_a_failing_transformation_fails_the_message_and_nothing_else() -> None:
    bad = Transformation("bad", "json", "csv", lambda content, _: 1 / 0)  # type: ignore[arg-type, return-value]
    source = RoutedSource("in", ("r",), before=("bad",), format="json")
    rules = rule_set(
        Rule("r", to=("mq",)), sources=[source], transformations=[bad], destinations={"mq": "csv"}
    )
    assert rules.route(message({})).reason == (
        "transformation 'bad' failed: ZeroDivisionError: division by zero"
    )
    late = rule_set(Rule("r", to=("mq",)), transformations=[bad], destinations={"mq": "csv"})
    with pytest.raises(Malformed, match="'bad' failed"):
        late.make(late.route(message({})))
    assert Formats([CSV]).plan("json", []).used == frozenset()


def test_compare_tells_what_goes_elsewhere() -> None:
    def version(number: int, over: int) -> RuleSet:
        return rule_set(Rule("r", when=(when("n", over=over),), to=("mq",)), number=number)

    messages = [message({"n": n}) for n in range(10)] + [message(b"{")]
    found = compare(version(1, 3), version(2, 5), iter(messages), examples=1)
    assert str(found).splitlines() == [
        "2 of 11 messages would go elsewhere by rules 2",
        "  2: mq → nowhere",
        "  1 fail by both",
    ]
    (before, after), *rest = found.examples
    assert not rest
    assert "rule r fired" in str(before)
    assert "n over 5 does not hold, as n is 4" in str(after)
