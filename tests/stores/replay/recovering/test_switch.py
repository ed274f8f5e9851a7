"""A partition that is recovered is read in order, nothing twice, nothing missed, over crashes."""

import json
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.replay.recovering import switch as deciding
from stores.replay.recovering.message_ids import MessageIds, origin_of
from stores.replay.recovering.switch import PartitionSwitch, Phase, Seen, TooManyIds

Key = tuple[int, int]
"""Origin partition, offset there."""


KINDS = (0, 0, 0, 1, 2)
"""Of an inbound message: the router publishes it here; elsewhere; here, but by rules since then."""


def id_of(key: Key) -> str:
    return f"site/in/{key[0]}/{key[1]}/0"


@dataclass
class Recovery:
    """A request: what it has, in order, and where it was when it began."""

    name: str
    keys: list[Key]
    since: int
    begun: int
    whole: bool
    published: int = 0
    cancelled: bool = False
    handed: list[Key] = field(default_factory=list)


class World:
    """A router, a server and a consumer, each of which goes on or fails when it likes."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.inbound: list[list[int]] = [[], []]
        self.routed = [0, 0]
        self.primary: list[Key | None] = []  # None: it has no id
        self.handed: list[tuple[str, Key | int]] = []
        self.requests: list[Recovery] = []
        self.committed, self.row = 0, "null"
        self.restart()

        for origin in (0, 1):
            self.arrive(origin, 8)
            self.route(origin, self.chance.randint(2, 9))
        self.consume(self.chance.randint(1, 6), False)

    def go_on(self) -> None:
        """One of them does something."""
        origin, most = self.chance.randrange(2), self.chance.randint(1, 9)
        match self.chance.randrange(16):
            case 0:
                self.arrive(origin, most)
            case 1 | 2 | 3:
                self.route(origin, most)
            case 4:
                self.primary.append(None)
            case 5 | 6 if self.requests:
                self.requests[-1].published += 3 * most
            case 7 | 8 if self.switch.phase is Phase.PRIMARY:
                self.request()
            case 7 if self.switch.phase is not Phase.PRIMARY and most == 1:
                self.cancel()
            case 8:
                self.restart()
            case _:
                self.consume(most, self.chance.randrange(6) == 0)

    # The others.

    def arrive(self, origin: int, most: int) -> None:
        self.inbound[origin] += self.chance.choices(KINDS, k=most)

    def route(self, origin: int, most: int) -> None:
        for at in range(self.routed[origin], len(self.inbound[origin]))[:most]:
            self.routed[origin] = at + 1
            if self.inbound[origin][at] == 0:
                self.primary.append((origin, at))

    # The consumer.

    def request(self) -> None:
        keys, whole = list[Key](), self.chance.random() < 0.6
        for origin, kinds in enumerate(self.inbound):
            # Whole: all from one on that is on the primary, or would be the next there.
            low = self.chance.randint(0, self.routed[origin] if whole else len(kinds))
            for at in range(low, len(kinds)):
                if kinds[at] != 1 and (whole or self.chance.random() < 0.5):
                    keys.append((origin, at))
        if self.chance.random() < 0.5:
            keys.sort(key=lambda key: key[1])
        recovery = Recovery(
            str(len(self.requests)), keys, self.switch.position, len(self.handed), whole
        )
        self.requests.append(recovery)
        self.switch.stop(recovery.name)
        self.commit()

    def cancel(self) -> None:
        self.requests[-1].cancelled = True
        self.switch.leave()
        self.commit()

    def consume(self, most: int, crash: bool) -> None:
        handed = self.work(most)
        if crash:
            self.restart()
            return
        self.handed += handed
        for name, key in handed:
            if name != "primary":
                assert isinstance(key, tuple)
                self.requests[int(name)].handed.append(key)
        self.commit()

    def restart(self) -> None:
        self.switch = PartitionSwitch.from_json(json.loads(self.row), self.committed)
        self.begun = False

    def commit(self) -> None:
        self.committed, self.row = self.switch.position, json.dumps(self.switch.to_json())

    def work(self, most: int) -> list[tuple[str, Key | int]]:
        switch = self.switch
        if switch.on_primary:
            low = switch.position
            records = self.on_primary(low)[:most]
            kept = [records[index].offset for index in switch.read(records)]
            return [("primary", self.primary[at] or at) for at in kept]
        recovery = self.requests[-1]
        if recovery.published <= len(recovery.keys):
            return []  # the end mark is not there
        if switch.phase is Phase.STOPPED or not self.begun:
            switch.begin(len(self.primary))
            switch.look(self.on_primary(max(0, switch.position - 3)))
            self.begun = True
        records = [Seen(at, id_of(key)) for at, key in enumerate(recovery.keys)]
        records.append(Seen(len(records), ends=recovery.name))
        records = records[max(0, switch.reached - 1) :][:most]
        kept = [records[index].offset for index in switch.recovered(records)]
        self.begun = switch.phase is Phase.RECOVERY
        return [(recovery.name, recovery.keys[at]) for at in kept]

    def on_primary(self, low: int) -> list[Seen]:
        found = list(enumerate(self.primary))[low:]
        return [Seen(at, None if key is None else id_of(key)) for at, key in found]

    # What has to be.

    def end(self) -> None:
        for origin in (0, 1):
            self.route(origin, 10**6)
        for each in self.requests:
            each.published = 10**6
        for _ in range(10_000):
            if self.switch.phase is Phase.PRIMARY and self.switch.position == len(self.primary):
                break
            self.consume(4, False)
        on_primary = [key for name, key in self.handed if name == "primary"]
        places = {key or at: at for at, key in enumerate(self.primary)}
        assert on_primary == sorted(on_primary, key=lambda key: places[key]), "in its order"
        for key, at in places.items():
            count = on_primary.count(key)
            since = [each for each in self.requests if each.since <= at]
            named = [each for each in since if key in each.keys and not each.cancelled]
            handed = [each for each in since if key in each.handed]
            if not handed:
                assert count == 1, "missed"
            elif handed[-1] is next((each for each in since[::-1] if key in each.keys), None):
                assert count == 0, "twice"
            elif named and int(named[-1].name) > int(handed[-1].name):
                assert count == 1, "missed by the last one"
            else:
                assert count <= 1, "twice"
        for each in self.requests:
            assert len(set(each.handed)) == len(each.handed), "twice"
            if not each.cancelled:
                there = {key for key, at in places.items() if at >= each.since}
                assert set(each.keys) - set(each.handed) <= there, "missed"
            if each.whole and not each.cancelled:
                self.ascends(each)

    def ascends(self, recovery: Recovery) -> None:
        """From its beginning to that of the next one, each origin's messages are in order."""
        later = self.requests[int(recovery.name) + 1 :]
        end = later[0].begun if later else None
        came = [key for _, key in self.handed[recovery.begun : end] if isinstance(key, tuple)]
        for origin in (0, 1):
            mine = [at for which, at in came if which == origin and not self.inbound[origin][at]]
            assert mine == sorted(mine), (recovery, self.handed)


@settings(max_examples=max(1_000, settings().max_examples))
@given(st.integers(0, 2**64))
def test_nothing_is_missed_twice_or_out_of_order_whatever_fails(seed: int) -> None:
    world = World(seed)
    for _ in range(world.chance.randint(5, 60)):
        world.go_on()
    world.end()


def test_what_is_deferred_comes_behind_what_is_unread_though_the_router_is_behind() -> None:
    switch = PartitionSwitch(position=5)
    switch.stop("r")
    switch.begin(8)
    switch.look([Seen(at, id_of((0, at))) for at in range(5, 8)])
    records = [*(Seen(at, id_of((0, at))) for at in range(10)), Seen(10, ends="r")]
    assert switch.recovered(records) == [0, 1, 2, 3, 4]
    assert switch.phase is Phase.UNREAD
    assert switch.read([Seen(at, id_of((0, at))) for at in range(5, 9)]) == [0, 1, 2]
    assert (switch.phase, switch.position) == (Phase.STOPPED, 8)
    switch.begin(9)
    switch.look([Seen(8, id_of((0, 8)))])
    assert switch.recovered(records) == []
    assert switch.read([Seen(8, id_of((0, 8)))]) == [0]
    switch.begin(9)
    switch.look([])
    assert switch.recovered(records) == [9]
    assert switch.read([Seen(9, id_of((0, 9))), Seen(10, id_of((0, 10)))]) == [1]
    assert not switch.delivered


def test_another_recoverys_end_mark_is_none_and_a_replay_on_the_primary_is_not_skipped() -> None:
    switch = PartitionSwitch(position=5)
    switch.stop("r")
    switch.begin()
    assert switch.recovered(
        [Seen(0), Seen(1, "a"), Seen(2, ends="another"), Seen(3, ends="r")]
    ) == [*(0, 1, 2)]
    switch.delivered.add("a")
    assert switch.read([Seen(5, "a", replayed=True), Seen(6, "a")]) == [0]


def test_ids_that_are_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "MOST", 2)
    monkeypatch.setattr(deciding, "MOST_DELIVERED", 2)
    apart = [Seen(at, id_of((0, 2 * at))) for at in range(3)]
    switch = PartitionSwitch()
    switch.stop("r")
    switch.begin(3)
    with pytest.raises(TooManyIds, match="unread"):
        switch.look(apart)
    switch.begin(3)
    switch.look([])
    with pytest.raises(TooManyIds, match="kept"):
        switch.recovered(apart)


@pytest.mark.parametrize(
    "shape",
    [
        "stream/shop.orders/customer-{0:032d}/7/0",
        "delivery/shop.orders/{0:032x}/0",
        "digest/{0:064x}/0",
        "site/topic-{0:032d}/0/7/0",
    ],
)
def test_ids_that_no_record_has_room_for_are_refused_before_one_is_written(shape: str) -> None:
    """The commit failed, and did so again after each restart."""
    switch = PartitionSwitch()
    switch.stop("r")
    switch.begin(0)
    switch.look([])

    def recover() -> None:
        for first in range(0, 20_000, 2_000):
            switch.recovered([Seen(at, shape.format(at)) for at in range(first, first + 2_000)])
            assert len(json.dumps(switch.to_json())) < 1_000_000

    with pytest.raises(TooManyIds, match="900,000 bytes"):
        recover()


def test_ids_are_ranges_where_they_have_offsets_and_come_back_as_they_were_written() -> None:
    ids, opaque = MessageIds(), ["digest/abc/0", "x", "a/b/c/1x/0", f"a/b/0/{2**70}/0", "a/b/c/٣/0"]
    for at in range(100):
        ids.add(f"s/t/0/{at}/0")
        ids.add(f"stream/t/a/{at}/0")
    for each in opaque:
        assert origin_of(each) is None
        ids.add(each)
    assert len(ids) == 2 + len(opaque)
    again = MessageIds.from_json(json.loads(json.dumps(ids.to_json())))
    again.forget_before("stream/t/a/50/0")  # these are in no order
    again.forget_before("s/t/0/50/1")
    assert ["s/t/0/49/0" in again, "s/t/0/50/0" in again, "s/t/0/50" in again] == [
        False,
        True,
        False,
    ]
    assert "stream/t/a/3/0" in again
    assert all(each in again for each in opaque)
    again.forget_before("s/t/0/100/0")
    assert again.ordered() == set()
