"""What is forwarded, and what a copy says of itself, whatever headers come in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.sites.checks import unreadable
from stores.sites.errors import SiteError
from stores.sites.fences import Fence, allowed
from stores.sites.lag import behind
from stores.sites.origin import (
    PASSED,
    Origin,
    headers_of_copy,
    is_forwarded,
    origin_of,
    passed,
)
from stores.sites.site import Extent
from topology import Topology, TopologyTestDriver
from topology.model.event import Record
from topology.model.origin_headers import ORIGIN, original
from topology.routing import RoutedSource, Rule, RuleSet

names = st.sampled_from([ORIGIN, PASSED, "sequitur-id", "h"])
values = st.none() | st.binary(max_size=40) | st.sampled_from([b"c/t/0/1", b"c/t/0/" + b"9" * 5000])
headers = st.lists(st.tuples(names, values), max_size=5)
origins = st.builds(
    Origin,
    st.text("abAB-_/é", min_size=1, max_size=22),
    st.text("t.-_0", min_size=1, max_size=9),
    st.integers(0, 10**6),
    st.integers(0, 10**15),
)


@given(headers, origins)
def test_a_copy_is_known_by_its_origin_wherever_it_is_and_goes_nowhere_by_itself(
    given: list[tuple[str, bytes | None]], origin: Origin
) -> None:
    given = [each for each in given if origin_of([each], origin.topic) is None]
    here = headers_of_copy(given, origin, origin.cluster)
    there = headers_of_copy(here, origin, "another")
    for each in (here, there):
        assert origin_of(each, origin.topic) == origin
        assert not is_forwarded(each, b"", origin.topic)
        assert is_forwarded(each, b"", origin.topic + "x"), "derived from it, into another topic"
        others = [h for h in given if h[0] != PASSED]
        assert [h for h in each if h[0] != PASSED] == [*others, (ORIGIN, str(origin).encode())]
        record = Record(origin.topic, 0, 7, b"k", b"", [(n, v or b"") for n, v in each], 1)
        assert original(record) is record, "it is not one of the by-stream topic"
    if "," not in origin.cluster:
        assert passed(here) == (origin.cluster,)
        assert set(passed(there)) == {origin.cluster, "another"}


@given(headers, st.none() | st.binary())
def test_no_header_stops_a_forwarder(
    given: list[tuple[str, bytes | None]], value: bytes | None
) -> None:
    assert is_forwarded(given, value, "t") == ((ORIGIN, b"c/t/0/1") not in given), (
        "only an origin in this topic makes it a copy"
    )


def test_the_end_of_a_day_stays_at_its_site() -> None:
    assert not is_forwarded([], b'{"sequitur-day": "2026-11-22"}', "t")
    assert is_forwarded([("h", b"")], b'{"sequitur-day": "2026-11-22"}', "t")


@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=12))
def test_epochs_only_grow_and_say_the_same_to_whoever_asks_again(
    decisions: list[tuple[int, bool]],
) -> None:
    written: list[Fence] = []
    for epoch, fenced in decisions:
        fence = Fence(epoch, fenced, "me", "", 0.0)
        before = written[-1] if written else Fence(0, False, "", "", 0.0)
        try:
            if allowed(written, fence, "kennedy"):
                assert epoch > before.epoch
                assert fenced or before.fenced
                written.append(fence)
            else:
                assert (epoch, fenced) == (before.epoch, before.fenced)
        except SiteError:
            assert epoch <= before.epoch or not before.fenced
    # There is always a higher one: nobody can give the last one that is there.
    with pytest.raises(SiteError, match="too far above the last one"):
        allowed(written, Fence(2**63, True, "me", "", 0.0), "kennedy")


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 12), st.sets(st.integers(0, 17)))
def test_what_is_missing_is_what_lies_between(
    begin: int, more: int, place: int, own: set[int]
) -> None:
    extent = Extent(begin, begin + more)
    there = sorted(each for each in own if begin <= each < extent.end)
    found = behind("newark", "kennedy", ("t", 0), extent, place, there)
    assert found.messages == len([each for each in there if each >= place])
    assert found.deleted == len(range(place, begin))
    assert (unreadable(place, extent) is None) == (begin <= place <= extent.end)
    assert found.missing == bool(found.messages or found.deleted)


def test_what_goes_nowhere_is_not_held_back_by_an_open_transaction() -> None:
    extent = Extent(0, 5, 3)
    for offsets, messages, held_from in (([1, 6], 2, 5), ([1], 1, None), (None, None, 5)):
        found = behind("newark", "kennedy", ("t", 0), extent, 0, offsets)
        assert (found.messages, found.high, found.held_from) == (messages, 8, held_from)
    assert behind("newark", "kennedy", ("t", 0), extent, 7, [1, 6]).messages == 0


def test_a_router_sends_a_copy_on_like_anything_else_with_its_origin() -> None:
    site = Topology("site")
    rules = RuleSet(
        1,
        sources=[RoutedSource("movements", ("all",))],
        rules=[Rule("all", to=("view",))],
        destinations={"view": None},
    )
    site.route("all", rules=rules, to={"view": "routed"})
    origin = Origin("kennedy", "movements", 0, 7)
    driver = TopologyTestDriver(site)
    given = [(name, value or b"") for name, value in headers_of_copy([], origin, "newark")]
    driver.pipe("movements", b"{}", key=b"N1", headers=given)
    (sent,) = driver.read("routed")
    assert (sent.key, sent.value) == (b"N1", b"{}")
    assert origin_of(sent.headers, "movements") == origin
    assert is_forwarded(sent.headers, sent.value, "routed"), (
        "what is routed here was published here"
    )
