"""The path service: a durable map unit → member, chosen by load, kept, deleted when unused."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stores.units.errors import MemberUnavailable, RouteMoving, UnitError
from stores.units.routing import PathEntry, PathMap
from tests.examples import some


def test_a_unit_goes_to_the_least_loaded_member_at_first_use() -> None:
    paths = PathMap(["a", "b"])
    paths.set_load("a", 2.5)
    members = [paths.route(f"u{each}", "p", 0.0).member for each in range(5)]
    assert members == ["b", "b", "b", "a", "b"]


def test_a_path_is_kept_over_configuration_changes_and_while_another_member_is_down() -> None:
    paths = PathMap(["a", "b"])
    home = paths.route("u", "p", 0.0)
    paths.add_member("c")
    paths.set_load("a", 100.0)
    paths.set_reachable("b", False)
    assert paths.route("u", "q", 0.0) == home


def test_a_member_that_is_down_makes_sending_fail_rather_than_reorder() -> None:
    paths = PathMap(["a", "b"])
    home = paths.route("u", "p", 0.0).member
    paths.set_reachable(home, False)
    with pytest.raises(MemberUnavailable, match=f"lives on {home}, which is down"):
        paths.route("u", "p", 0.0)
    paths.set_reachable(home, True)
    assert paths.route("u", "p", 0.0).member == home


def test_with_no_member_up_a_new_unit_has_no_path() -> None:
    paths = PathMap(["a"])
    paths.set_reachable("a", False)
    with pytest.raises(MemberUnavailable, match="no member is up"):
        paths.route("u", "p", 0.0)


def test_an_entry_is_deleted_when_the_last_producer_and_the_last_message_are_gone() -> None:
    paths = PathMap(["a", "b"])
    paths.route("u", "p", 0.0)
    paths.route("u", "q", 0.0)
    paths.leave("u", "p")
    assert paths.unused() == []
    paths.close("q")
    ((unit, route),) = paths.unused()
    assert paths.emptied(unit, route.epoch)
    assert paths.take_rows() == {"u": None}
    paths.set_load(route.member, 9.0)
    assert paths.route("u", "p", 0.0).member != route.member


def test_a_producers_lease_ends_so_that_a_kill_leaks_nothing() -> None:
    paths = PathMap(["a"], lease=10.0)
    paths.route("u", "killed", 0.0)
    paths.route("u", "lives", 0.0)
    assert paths.renew("lives", 9.0)
    paths.expire(10.0)
    assert paths.entries()["u"].producers == ("lives",)
    assert not paths.renew("killed", 10.0)
    paths.expire(19.0)
    assert [unit for unit, _ in paths.unused()] == ["u"]


def test_a_unit_that_is_used_anew_meanwhile_is_not_deleted() -> None:
    paths = PathMap(["a"])
    paths.route("u", "p", 0.0)
    paths.close("p")
    ((unit, route),) = paths.unused()
    paths.route("u", "q", 0.0)
    assert not paths.emptied(unit, route.epoch)
    paths.close("q")
    assert not paths.emptied(unit, route.epoch)
    assert not paths.emptied("nobody", 1)


def test_entries_of_removed_members_go() -> None:
    paths = PathMap(["a", "b"])
    for each in range(4):
        paths.route(f"u{each}", "p", 0.0)
    assert paths.remove_member("a") == ["u0", "u2"]
    assert {each.member for each in paths.entries().values()} == {"b"}
    assert paths.route("u0", "p", 0.0).member == "b"
    restored = PathMap(["b"])
    restored.restore({"x": PathEntry("a", 4, ("p",))}, 0.0)
    assert restored.take_rows()["x"] is None


def test_a_unit_moves_when_no_producer_has_the_old_route_and_the_old_member_is_drained() -> None:
    paths = PathMap(["a", "b"], lease=10.0)
    paths.route("u", "p", 0.0)
    paths.route("u", "slow", 0.0)
    move = paths.move("u", "b", 5.0)
    with pytest.raises(RouteMoving, match="send again shortly"):
        paths.route("u", "p", 5.0)
    assert "u" in paths.dropped_by("p")
    paths.leave("u", "p")
    assert paths.fenced(6.0) == []
    assert not paths.drained("u", move.epoch, 6.0)
    paths.renew("slow", 9.0)  # it goes on with other units, and drops this one
    assert paths.fenced(14.9) == []
    assert paths.fenced(15.0) == [move]
    assert not paths.drained("u", move.epoch + 1, 15.0)
    assert paths.drained("u", move.epoch, 15.0)
    assert paths.route("u", "p", 15.0).member == "b"


def test_a_move_that_cannot_be_is_refused_and_one_to_a_removed_member_ends_where_it_began() -> None:
    paths = PathMap(["a", "b"])
    paths.route("u", "p", 0.0)
    for unit, target in (("u", "a"), ("nobody", "b")):
        with pytest.raises(UnitError, match="cannot move"):
            paths.move(unit, target, 0.0)
    with pytest.raises(MemberUnavailable, match="no member"):
        paths.move("u", "z", 0.0)
    paths.move("u", "b", 0.0)
    paths.remove_member("b")
    assert paths.route("u", "p", 0.0).member == "a"


def test_a_move_goes_on_after_a_restart_and_waits_for_the_leases_again() -> None:
    paths = PathMap(["a", "b"], lease=10.0)
    paths.route("u", "p", 0.0)
    paths.move("u", "b", 0.0)
    new = PathMap(["a", "b"], lease=10.0)
    new.restore({unit: entry for unit, entry in paths.take_rows().items() if entry}, 1.0)
    assert new.fenced(10.9) == []
    (move,) = new.fenced(11.0)
    assert (move.source, move.target) == ("a", "b")


class PathMachine(RuleBasedStateMachine):
    """Producers with leases, members with messages, a service that restarts and moves units.

    A producer uses its route as long as its lease holds by its own count, and asks when it is over.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.rows: dict[str, PathEntry] = {}
        self.members = ["a", "b", "c"]
        self.paths = PathMap(self.members, lease=10.0)
        self.leases: dict[str, float] = {}
        self.routes: dict[tuple[str, str], str] = {}
        self.messages: dict[str, list[str]] = {"u": [], "v": []}
        """Unit → the members on which its messages wait."""

    def save(self) -> None:
        for unit, entry in self.paths.take_rows().items():
            if entry is None:
                self.rows.pop(unit, None)
            else:
                self.rows[unit] = entry

    @rule(unit=st.sampled_from("uv"), producer=st.sampled_from("pq"))
    def send(self, unit: str, producer: str) -> None:
        if self.leases.get(producer, 0.0) <= self.now:
            for key in [key for key in self.routes if key[1] == producer]:
                del self.routes[key]
        if (unit, producer) not in self.routes:
            try:
                route = self.paths.route(unit, producer, self.now)
            except (RouteMoving, MemberUnavailable):
                return
            self.routes[unit, producer] = route.member
            self.leases[producer] = self.now + 10.0
            self.save()
        self.messages[unit].append(self.routes[unit, producer])

    @rule(producer=st.sampled_from("pq"))
    def renew(self, producer: str) -> None:
        if self.paths.renew(producer, self.now):
            self.leases[producer] = self.now + 10.0
        for unit in "uv":
            if (unit, producer) in self.routes and unit in self.paths.dropped_by(producer):
                del self.routes[unit, producer]
                self.paths.leave(unit, producer)
        self.save()

    @rule(producer=st.sampled_from("pq"), kill=st.booleans())
    def close(self, producer: str, kill: bool) -> None:
        self.leases.pop(producer, None)
        for key in [key for key in self.routes if key[1] == producer]:
            del self.routes[key]
        if not kill:
            self.paths.close(producer)
            self.save()

    @rule(unit=st.sampled_from("uv"))
    def consume(self, unit: str) -> None:
        if self.messages[unit]:
            self.messages[unit].pop(0)

    @rule(seconds=st.sampled_from((1.0, 5.0, 12.0)))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(unit=st.sampled_from("uv"), to=st.sampled_from("abc"))
    def move(self, unit: str, to: str) -> None:
        try:
            self.paths.move(unit, to, self.now)
        except UnitError:
            return
        self.save()

    @rule(member=st.sampled_from("abc"), up=st.booleans())
    def outage(self, member: str, up: bool) -> None:
        self.paths.set_reachable(member, up)

    @rule()
    def tend(self) -> None:
        self.paths.expire(self.now)
        for unit, route in self.paths.unused():
            if route.member not in self.messages[unit]:
                self.paths.emptied(unit, route.epoch)
        for each in self.paths.fenced(self.now):
            if each.source not in self.messages[each.what]:
                assert self.paths.drained(each.what, each.epoch, self.now)
        self.save()

    @rule()
    def restart(self) -> None:
        self.paths = PathMap(self.members, lease=10.0)
        self.paths.restore(self.rows, self.now)

    @invariant()
    def a_unit_lives_on_one_member(self) -> None:
        for unit, places in self.messages.items():
            assert len(set(places)) <= 1, f"{unit} is on {places}"

    def teardown(self) -> None:
        """Nothing leaks: with producers and messages gone, no entry is left."""
        for member in self.members:
            self.paths.set_reachable(member, True)
        for places in self.messages.values():
            places.clear()
        for _ in range(2):
            self.now += 11.0
            self.tend()
            self.tend()
        assert self.paths.entries() == {}
        assert self.rows == {}


TestPathMachine = PathMachine.TestCase
TestPathMachine.settings = settings(
    max_examples=some(80),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
