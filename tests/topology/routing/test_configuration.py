"""A configuration file says the same as Python does, and what is wrong in it is named."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.routing.messages import by_length, message
from topology import DeclarationError
from topology.routing import read_csv, read_json, read_toml, rules_from

TOML = f"""
[source.flights]
rules = ["maker", "late", "own"]
module = "flight"

[source.raw]
format = "bytes"
module = "{by_length.__module__}:by_length"
rules = ["long"]

[module.flight]
format = "json"
keys = {{ tail = "tail", delay = "delay", origin = "origin" }}

[keymap.makers]
otherwise = "other"

[keymap.seats]
entries = {{ N2 = 182 }}

[rule.maker]
key = "tail"
keymap = "makers"
[rule.maker.outbound]
boeing = "kafka"
airbus = {{ to = ["mq"], then = ["big"] }}

[rule.big]
when = {{ key = "tail", keymap = "seats", over = 150 }}
to = "file"

[rule.late]
when = [{{ key = "delay", at_least = 60 }}, {{ any = [{{ key = "origin", equals = "JFK" }}] }}]
to = ["mq"]

[rule.own]
key = {{ header = "to" }}
outbound = "tags"

[outbound.tags]
f = ["file", "kafka"]

[rule.long]
when = {{ key = "length", over = 3 }}
to = "file"

[destination.kafka]
[destination.mq]
format = "xml"
[destination.file]

[transformation.to-xml]
reads = "json"
writes = "xml"
function = "tests.topology.routing.messages:shout"
"""
MAKERS = "tail,maker\nN1,boeing\nN2,airbus\n"


def test_a_toml_file_makes_rules() -> None:
    rules = rules_from(read_toml(TOML), 4, {"makers": read_csv(MAKERS)})
    assert rules.number == 4

    def to(value: Any, headers: dict[str, bytes] | None = None, topic: str = "flights") -> Any:
        return rules.route(message(value, headers, topic=topic), "all").destinations

    assert to({"tail": "N1"}) == ("kafka",)
    assert to({"tail": "N2", "delay": 61, "origin": "JFK"}) == ("mq", "file")
    assert to({"tail": "N3", "delay": 61, "origin": "LGA"}) == ()
    assert to({"tail": "N3"}, {"to": b"f"}) == ("file", "kafka")
    assert to(b"long", topic="raw") == ("file",)
    again = rules_from(read_toml(TOML), 4, {"makers": {"N1": "boeing", "N2": "airbus"}})
    assert again.digest == rules.digest


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[rule.big]", "[rules.big]", "no 'rules' .did you mean 'rule'"),
        ("over = 150", "ovr = 150", "rule 'big': .*did you mean 'over'"),
        ("over = 150", 'over = "150"', "rule 'big': .*give a number"),
        ('key = "delay"', "key = 7", "rule 'late': key = 7"),
        ("any = [", "some = [", "rule 'late': key = None; give"),
        ('then = ["big"]', 'than = ["big"]', "did you mean 'then'"),
        ('otherwise = "other"', 'otherwize = "other"', "did you mean 'otherwise'"),
        ('format = "json"\nkeys', 'format = "jsn"\nkeys', "did you mean 'json'"),
        ("keys = {", "fields = {", "module 'flight' of json"),
        ("[keymap.makers]", "[keymap.markers]", "did you mean 'makers'"),
        ('rules = ["long"]', "", "source 'raw'"),
        ("messages:shout", "messages:shut", "has no 'shut'"),
        ("[destination.kafka]", "destination = 1", "it has no 'destination'"),
        ('module = "flight"', "module = { f = 1 }", "source 'flights': no introspection module"),
        ('keymap = "seats"', 'keymap = ["seats"]', "rule 'big': no keymap .*'seats'"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(old: str, new: str, reason: str) -> None:
    assert old in TOML
    with pytest.raises(DeclarationError, match=reason):
        rules_from(read_toml(TOML.replace(old, new)), 1, {"makers": read_csv(MAKERS)})


def test_text_that_is_no_table_is_refused() -> None:
    with pytest.raises(DeclarationError, match="not TOML"):
        read_toml("[")
    with pytest.raises(DeclarationError, match="not JSON"):
        read_json("[")
    with pytest.raises(DeclarationError, match="line 2"):
        read_csv('a,b\n"x"y,z\n')
    with pytest.raises(DeclarationError, match="entry 1: a row is"):
        rules_from(read_toml(TOML), 1, {"makers": read_csv("a\nb\n")})


LEAF = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.sampled_from(["maker", "kafka"]))
VALUES = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["key", "when", "to", "then", "entries", "format", "all", "x"]), inner
        ),
    ),
    max_leaves=8,
)


@settings(max_examples=some(200), deadline=None)
@given(
    st.sampled_from(["source", "rule", "destination", "keymap", "outbound", "module"]),
    st.sampled_from(["maker", "flights", "kafka", "tags", "flight"]),
    VALUES,
)
def test_no_configuration_raises_anything_but_a_declaration_error(
    kind: str, name: str, value: Any
) -> None:
    data = read_toml(TOML)
    data[kind] = {**data[kind], name: value}
    try:
        rules_from(data, 1, {"makers": read_csv(MAKERS)})
    except DeclarationError as error:
        assert str(error)  # noqa: PT017
