"""A soak's input has the disorder that its shape names, and loses nothing."""

from collections import defaultdict

import orjson
import pytest

from soak.workload import SHAPES, Shape, shaped


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_event_arrives_at_least_once(shape: Shape) -> None:
    work = shaped(20_000, shape, seed=3)
    arrived: dict[str, set[int]] = defaultdict(set)
    for _, value in work.messages:
        body = orjson.loads(value)
        arrived[body["stream"]].add(body["seq"])
    assert {stream: len(found) for stream, found in arrived.items()} == {
        stream: last for stream, (last, _) in work.totals.items()
    }
    assert sum(map(len, arrived.values())) == 20_000


def most_overtaken(shape: Shape) -> int:
    """How many later events of its stream overtake one at most."""
    highest: dict[str, int] = defaultdict(int)
    most = 0
    for _, value in shaped(40_000, shape, seed=3).messages:
        body = orjson.loads(value)
        most = max(most, highest[body["stream"]] - body["seq"])
        highest[body["stream"]] = max(highest[body["stream"]], body["seq"])
    return most


def test_the_deep_shapes_go_far_beyond_a_ring() -> None:
    deep = Shape("", 10, late=0.3, reach=500)
    hot = Shape("", 100, late=0.0, twice=0.0, hot=0.5, block=2_000)
    assert most_overtaken(deep) > 300
    assert 1_500 < most_overtaken(hot) <= 2_000
