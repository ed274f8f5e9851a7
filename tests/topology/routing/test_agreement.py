"""Several processes of a router never route a partition back and forth between versions."""

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from topology import DeclarationError
from topology.routing import (
    Agreement,
    ControlRecord,
    Failed,
    Joined,
    Keymap,
    Left,
    Load,
    Loaded,
    Member,
    Propose,
    RoutedSource,
    Rule,
    RuleSet,
)

PROCESSES, PARTITIONS = 2, 3


@cache
def rules(number: int, tag: str = "a") -> RuleSet:
    """Two sources, of which one uses the keymap."""
    return RuleSet(
        number,
        sources=[RoutedSource("mapped", ("m",)), RoutedSource("plain", ("p",))],
        rules=[Rule("m", key="k", keymap="map", outbound="o"), Rule("p", to=("d",))],
        destinations={"d": None},
        keymaps=[Keymap("map", {"k": tag})],
        outbound={"o": {"a": "d"}},
    )


class Router:
    """Processes that read one log at their own pace, and partitions that move between them.

    The first two partitions are of the source whose rules use the keymap.
    """

    def __init__(self) -> None:
        self.log: list[ControlRecord] = []
        self.born = 0
        self.table = "a"
        self.members: dict[int, tuple[Member, int]] = {}
        self.loads: dict[int, Load] = {}
        self.owner = [0] * PARTITIONS
        self.routed: list[list[tuple[int, str]]] = [[] for _ in range(PARTITIONS)]
        for place in range(PROCESSES):
            self._start(place)
        self.log.append(Propose())
        self.settle()

    def _start(self, place: int) -> None:
        self.born += 1
        name = f"p{place}-{self.born}"
        self.log.append(Joined(name))
        self.members[place] = Member(name), 0
        self.loads.pop(place, None)

    def _note(self, place: int, load: Load | None) -> None:
        if load is not None:
            self.loads[place] = load

    def read(self, place: int, _: int = 0) -> None:
        member, at = self.members[place]
        if at < len(self.log):
            self.members[place] = member, at + 1
            self._note(place, member.read(self.log[at]))
        else:
            self._note(place, member.wanted())
            # One that is said to have left, and lives, joins again, and says what it has loaded.
            alive = member.process in member.agreement.processes
            again = member.answer() if alive else Joined(member.process)
            if again is not None:
                self.log.append(again)

    def read_all(self, place: int, _: int = 0) -> None:
        while self.members[place][1] < len(self.log):
            self.read(place)
        self.read(place)

    def load(self, place: int, choice: int) -> None:
        load, member = self.loads.pop(place, None), self.members[place][0]
        if load is None:
            return
        told: Any = None
        if choice == 1:
            told = member.failed(load.version, "no database")
        else:
            try:
                told = member.loaded(rules(load.version, self.table))
            except DeclarationError as error:
                assert "declare the changed keymaps stale" in str(error)  # noqa: PT017
        if told is not None:
            self.log.append(told)

    def catch_up(self, place: int, choice: int) -> None:
        self.read_all(place)
        self.load(place, choice)

    def propose(self, _: int, choice: int) -> None:
        if not isinstance(self.log[-1], Propose) or choice == 3:
            self.log.append(Propose(frozenset({"map"}) if choice else frozenset()))

    def change_table(self, _: int, choice: int) -> None:
        self.table = "ab"[choice % 2]

    def die(self, place: int, choice: int) -> None:
        if choice == 1:
            self.log.append(Left(self.members[place][0].process))
            self._start(place)
        if choice == 2:  # it is alive, but nobody hears it
            self.log.append(Left(self.members[place][0].process))

    def move(self, place: int, choice: int) -> None:
        self.owner[choice % PARTITIONS] = place

    def route(self, _: int, choice: int) -> None:
        partition = choice % PARTITIONS
        member = self.members[self.owner[partition]][0]
        last = self.routed[partition][-1][0] if self.routed[partition] else 0
        found = member.rules_for("mapped" if partition < 2 else "plain", last)
        if found is not None:
            open_ = member.agreement.proposal
            assert partition == 2 or open_ is None or "map" not in open_.stale
            self.routed[partition].append((found.number, found.digest))

    def settle(self) -> None:
        for _ in range(5):
            for place in range(PROCESSES):
                self.read_all(place)
                self.load(place, 0)

    def check(self) -> None:
        contents: dict[int, str] = {}
        for partition in self.routed:
            versions = [version for version, _ in partition]
            assert versions == sorted(versions), "a partition went back to an older version"
            for version, digest in partition:
                assert contents.setdefault(version, digest) == digest, "one version, two contents"
        at, decided = Agreement(), {0}
        for seen, record in enumerate(self.log, 1):
            before, at = at, at.after(record)
            if at.version != before.version:
                decided.add(at.version)
                loaded = {r.process for r in self.log[:seen]
                          if isinstance(r, Loaded) and r.version == at.version}  # fmt: skip
                assert at.processes <= loaded
        assert contents.keys() <= decided, "somebody routed by what not all had loaded"


STEPS: list[Callable[[Router, int, int], None]] = [
    Router.route, Router.route, Router.route, Router.move, Router.read, Router.read_all,
    Router.catch_up, Router.catch_up, Router.load, Router.propose, Router.change_table, Router.die,
]  # fmt: skip


# Steps come from a seed: lists of steps that Hypothesis draws hold too few of the long ways round.
@settings(max_examples=some(80), deadline=None)
@given(st.integers(0, 2**32))
def test_a_partition_is_routed_by_one_version_up_to_an_offset_and_by_the_next_from_there(
    seed: int,
) -> None:
    random, router = Random(seed), Router()
    for _ in range(250):
        step = random.choice(STEPS)
        step(router, random.randrange(PROCESSES), random.randrange(2 * PARTITIONS))
    router.check()
    # However it went: all agree in the end, and go on.
    router.table = "a"
    router.log.append(Propose(frozenset({"map"})))
    router.settle()
    router.check()
    members = [member for member, _ in router.members.values()]
    assert len({member.agreement.version for member in members}) == 1
    assert all(member.current is not None and not member.paused() for member in members)


def agreed(*records: ControlRecord) -> Agreement:
    at = Agreement()
    for record in records:
        at = at.after(record)
    return at


def member_at_1() -> Member:
    member = Member("p")
    member.read(Joined("p"))
    load = member.read(Propose())
    assert load == Load(1, frozenset(), None)
    told = member.loaded(rules(1))
    assert told is not None
    member.read(told)
    assert member.current is not None
    return member


def test_a_stale_keymap_pauses_the_sources_that_use_it_until_it_is_loaded() -> None:
    member = member_at_1()
    assert member.read(Propose(frozenset({"map"}))) == Load(
        2, frozenset({"map"}), None, fresh=False
    )
    assert member.paused() == {"mapped"}
    assert member.rules_for("mapped", 1) is None
    assert member.rules_for("plain", 1) is member.current
    assert member.current is not None
    new = member.current.with_keymaps(2, [Keymap("map", {"k": "b"})])
    told = member.loaded(new)
    assert told is not None
    member.read(told)
    assert member.paused() == frozenset()
    assert member.rules_for("mapped", 1) is new


def test_a_failing_reload_keeps_the_old_rules_and_says_so() -> None:
    member = member_at_1()
    member.read(Propose(frozenset({"map"})))
    told = member.failed(2, "no such table\x1b[2J")
    assert told is not None
    member.read(told)
    assert member.rules_for("mapped", 1) is not None
    assert member.agreement.version == 1
    assert member.agreement.refused == (
        "version 2 is refused, version 1 stays: p could not load it: no such table\\x1b[2J"
    )
    assert member.failed(2, "again") is None


def test_a_notice_during_a_load_begins_it_again() -> None:
    member = member_at_1()
    member.read(Propose(frozenset({"map"})))
    assert member.read(Propose(rules="new.toml")) == Load(3, frozenset({"map"}), "new.toml")
    assert member.loaded(rules(2)) is None
    assert member.agreement.after(Loaded("p", 2, "x")).version == 1


def test_processes_that_loaded_different_tables_do_not_switch() -> None:
    at = agreed(Joined("p"), Joined("q"), Propose(), Loaded("p", 1, "x"), Loaded("q", 1, "y"))
    assert at.version == 0
    assert "different tables" in str(at.refused)


def test_a_process_that_left_is_not_waited_for() -> None:
    at = agreed(Joined("p"), Joined("q"), Propose(), Loaded("p", 1, "x"))
    assert at.version == 0
    assert at.after(Left("q")).version == 1
    assert at.after(Failed("stranger", 1, "no")) == at


def test_a_process_that_comes_later_must_have_what_was_decided() -> None:
    member = member_at_1()
    late = Member("late", member.agreement)
    assert late.wanted() == Load(1, frozenset(), None)
    with pytest.raises(DeclarationError, match="tables have changed"):
        late.loaded(rules(1, "b"))
    assert late.rules_for("plain", 0) is None
    late.loaded(rules(1))
    assert late.rules_for("plain", 1) is not None
    assert late.rules_for("plain", 2) is None, "others route by 2, which it has not read of"
