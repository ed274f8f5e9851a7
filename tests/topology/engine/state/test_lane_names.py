"""A stream is found by its id as its producer writes it, bars and lanes included."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from topology import Event, Inspector, Topology, TopologyTestDriver, Upsert, park, redeliver
from topology.declaration.lanes import joined_lane, split_lane
from topology.engine.state.lane_names import ids_of, readings

PART = st.sampled_from(["a", "b", "|", "%", "%7C", "%25", "a|b", "b|c", "", "x%7Cy"])


def handler(event: Event) -> list[Upsert]:
    if event.content.get("bad"):
        raise ValueError("bad")
    return [Upsert("t", {"k": event.stream}, {"n": event.sequence})]


def driver_of(lane: str | None = "lane", **policies: Any) -> TopologyTestDriver:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector(stream="id", sequence="n"))
    topology.view("board", of=source, handler=handler, lane=lane, **policies)
    return TopologyTestDriver(topology)


def pipe(driver: TopologyTestDriver, stream: str, lane: str, *sequences: int, **more: Any) -> None:
    for sequence in sequences:
        driver.pipe("orders", {"id": stream, "lane": lane, "n": sequence, **more})


@pytest.mark.parametrize("stream", ["a", "a|b", "a%7Cb", "|", "a||b", "%"])
def test_a_stream_in_a_view_with_lanes_is_not_unknown_by_its_own_id(stream: str) -> None:
    driver = driver_of()
    pipe(driver, stream, "EUR", 1, 3)
    for name in (stream, f"{stream}|EUR", joined_lane(stream, "EUR")):
        found = driver.explain("board", name)
        assert (found.situation, found.stream) == ("waiting", joined_lane(stream, "EUR"))
        assert driver.last("board", name) == 1
        assert driver.waiting("board", name) == [3]
        assert driver.command("skip", "board", name, 2, dry_run=True).done
    assert driver.command("skip", "board", stream, 2).done
    assert driver.last("board", stream) == 3


@pytest.mark.parametrize("stream", ["a", "a|b", "a%7Cb"])
def test_a_stream_in_a_view_without_lanes_is_found_by_its_own_id(stream: str) -> None:
    driver = driver_of(lane=None)
    pipe(driver, stream, "", 1, 3)
    assert driver.explain("board", stream).situation == "waiting"
    assert driver.command("skip", "board", stream, 2).done
    assert driver.last("board", stream) == 3


def test_of_several_lanes_the_one_that_is_not_well_is_explained() -> None:
    driver = driver_of()
    pipe(driver, "a", "EUR", 1, 2)
    pipe(driver, "a", "GBP", 1, 3)
    pipe(driver, "a", "USD", 1)
    found = driver.explain("board", "a")
    assert (found.lane, found.well) == ("GBP", False)
    assert driver.explain("board", "a|EUR").well
    pipe(driver, "a", "GBP", 2)
    assert driver.explain("board", "a").well


def test_what_is_meant_for_one_lane_is_not_done_to_any_of_several() -> None:
    driver = driver_of()
    pipe(driver, "a", "EUR", 3)
    pipe(driver, "a", "GBP", 3)
    for name in ("skip", "redrive", "unpark", "drop"):
        told = driver.command(name, "board", "a", 1, force=True)
        assert not told.done
        assert "2 streams that 'a' may mean: a|EUR, a|GBP; name one of them" in told.message
    with pytest.raises(ValueError, match=r"has 2 lanes .*: a\|EUR, a\|GBP; name one of them"):
        driver.last("board", "a")
    assert driver.command("skip", "board", "a|EUR", 2, force=True).done
    assert (driver.last("board", "a|EUR"), driver.last("board", "a|GBP")) == (3, 0)


@pytest.mark.parametrize("name", ["redrive", "unpark", "drop"])
def test_each_command_finds_a_parked_stream_with_a_bar(name: str) -> None:
    driver = driver_of(error=park())
    pipe(driver, "a|b", "EUR", 1, bad=True)
    assert driver.command(name, "board", "a|b", force=True).done


def test_dead_events_are_put_back_by_their_stream_s_own_id() -> None:
    for name in ("a|b", "a|b|EUR", "a%7Cb|EUR"):
        driver = driver_of(buffer=2, full=redeliver(limit=1))
        pipe(driver, "a|b", "EUR", 2, 4)
        pipe(driver, "a", "c", 2, 4)
        driver.advance(60)
        assert driver.redrive_dead("board", name, dry_run=True) == {"a%7Cb|EUR": [4]}
        assert driver.redrive_dead("board", "a", dry_run=True) == {"a|c": [4]}
        # A lane comes before a stream of the same name.
        pipe(driver, "a", "b", 2, 4)
        driver.advance(60)
        assert driver.redrive_dead("board", "a|b", dry_run=True) == {"a|b": [4]}
    driver = driver_of(lane=None, buffer=2, full=redeliver(limit=1))
    guid = "6F9619FF-8B86-D011-B42D-00C04FC964FF"
    pipe(driver, guid, "", 2, 4)
    driver.advance(60)
    assert list(driver.redrive_dead("board", guid, dry_run=True).values()) == [[4]]


def test_a_lane_of_which_only_dead_events_are_known_is_explained() -> None:
    driver = driver_of()
    pipe(driver, "a|b", "EUR", 9)
    assert driver.command("drop", "board", "a|b", force=True).done
    found = driver.explain("board", "a|b")
    assert (found.stream, found.situation) == ("a%7Cb|EUR", "incomplete")


def test_an_id_that_is_no_text_is_read_as_a_message_s() -> None:
    driver = driver_of(lane=None)
    driver.pipe("orders", {"id": 7, "n": 1})
    assert driver.last("board", 7) == 1  # type: ignore[arg-type]
    for odd in ("\ud800", [1], None):
        with pytest.raises(ValueError, match="stream="):
            driver.explain("board", odd)  # type: ignore[arg-type]


@given(stream=st.lists(PART, min_size=1).map("".join), lane=st.lists(PART).map("".join))
def test_any_stream_and_lane_are_found_by_all_their_names(stream: str, lane: str) -> None:
    driver = driver_of()
    view = driver.topology.views["board"]
    pipe(driver, stream, lane, 1)
    task = driver._runner.view("board")
    assume(driver.counts("board").processed)  # no id is made of blanks or nothing
    (id,) = [key[1:].decode() for key, _ in task.state.table.scan(b"p", b"q")]
    own, its = split_lane(id)
    for name in (id, own, f"{own}|{its}"):
        assert ids_of(task.state, name) == [id]
        # A command goes by one of the readings: to the stream's partition.
        assert own in {split_lane(each)[0] for each in readings(view, name)}
