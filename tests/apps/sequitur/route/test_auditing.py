"""An audit tells a router's records from those that others write to its destinations."""

from sequitur.route.auditing import take
from topology import Record, Topology
from topology.routing import RoutedSource, Rule, RuleSet
from topology.routing.audit import RouteAudit

RULES = RuleSet(
    1,
    sources=[RoutedSource("in", ("all",))],
    rules=[Rule("all", to=("out",))],
    destinations={"out": None},
)
RULED = ("sequitur-rules", b"1")


def record(topic: str, offset: int, *headers: tuple[str, bytes]) -> Record:
    return Record(topic, 0, offset, None, b"x", headers)


def test_records_of_other_routers_are_not_wrong_and_those_of_nobody_are_one_line() -> None:
    route = Topology("t").route("router", rules=RULES)
    audit = RouteAudit({1: RULES}, lambda each: each.destination)
    consumed = {("in", 0): range(1)}
    take(audit, route, consumed, record("out", 0, ("sequitur-origin", b"in/0/0/7"), RULED))
    take(audit, route, consumed, record("out", 1, ("sequitur-origin", b"in/0/9/7"), RULED))
    for offset in range(2, 7):
        take(audit, route, consumed, record("out", offset, ("sequitur-origin", b"other/0/0/7")))
    take(audit, route, consumed, record("out.beside", 0))
    audit.partition([Record("in", 0, 0, None, b"x")], 1)
    audit.left()
    assert (audit.wrong, audit.routed) == (0, 1)
    assert "  out: 1, and 5 of others" in audit.lines()
    for offset in range(7, 4_000):
        take(audit, route, consumed, record("out", offset))
    assert [each for each in audit.lines() if "WRONG" in each] == [
        "WRONG: 3,993 records of out without an origin"
    ]
