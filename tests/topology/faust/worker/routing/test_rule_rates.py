"""How often rules fire is told over versions, with a rate since the last question."""

from types import SimpleNamespace
from typing import Any

from topology import Record
from topology.faust.worker.routing.rule_rates import MOST, RuleRates
from topology.routing import RoutedSource, Rule, RuleSet, when


def rules(number: int, *names: str) -> RuleSet:
    return RuleSet(
        number,
        sources=[RoutedSource("moves", names)],
        rules=[Rule(n, when=(when("gate", equals=n),), to=("out",)) for n in names],
        destinations={"out": None},
    )


def routed(found: RuleSet, *gates: str) -> None:
    for gate in gates:
        found.route(Record("moves", 0, 0, None, b'{"gate": "%s"}' % gate.encode(), (), 0))


def test_rules_that_fire_are_counted_with_a_rate() -> None:
    rates, one = RuleRates(), rules(1, "a", "b")
    routed(one, "a", "a", "c")
    assert rates.of(one, 10) == {"a": (2, 0.0), "b": (0, 0.0)}
    routed(one, "a", "b", "b")
    assert rates.of(one, 12) == {"a": (3, 0.5), "b": (2, 1.0)}
    assert rates.of(one, 14) == {"a": (3, 0.0), "b": (2, 0.0)}
    other = rules(2, "a", "z")
    routed(other, "a")
    assert rates.of(other, 15) == {"a": (4, 1.0), "z": (0, 0.0)}


def test_a_heartbeat_tells_of_those_that_fired_most() -> None:
    many: Any = SimpleNamespace(fired={f"r{n}": n for n in range(MOST + 5)})
    found = RuleRates().of(many, 1)
    assert len(found) == MOST
    assert f"r{MOST + 4}" in found
    assert "r0" not in found
