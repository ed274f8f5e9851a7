"""Sources: their topics, and the mistakes in declaring them."""

from typing import Any

import pytest

from topology import DeclarationError, Inspector, Source, Topology, contiguous

INSPECTOR = Inspector(stream="id", sequence="n")


def shop() -> tuple[Topology, Source]:
    topology = Topology("shop")
    return topology, topology.source("orders", inspector=INSPECTOR)


def mistake(topology: Topology, *arguments: Any, **options: Any) -> str:
    with pytest.raises(DeclarationError) as error:
        topology.source(*arguments, **options)
    return str(error.value)


def test_a_source_of_several_topics_is_merged_by_stream() -> None:
    topology = Topology("shop")
    source = topology.source(["web", "phone"], name="orders", inspector=INSPECTOR)
    assert source.topics == ("web", "phone")
    assert source.by_stream == "shop.orders.by-stream"
    assert source.sequence == contiguous()


@pytest.mark.parametrize("topic", ["", "a b", "ä", ".", "..", "x" * 250, "a/b", 5, None])
def test_a_bad_topic_is_named(topic: Any) -> None:
    text = mistake(shop()[0], [topic], inspector=INSPECTOR, name="other")
    assert repr(topic) in text
    assert "249" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"topic": ()}, "at least one topic"),
        ({"topic": "orders"}, "'orders' belongs to source 'orders' already"),
        ({"topic": ["a", "b"], "keyed": True}, "keyed=True takes one topic"),
        ({"topic": "a", "name": "orders"}, "'orders' exists twice"),
        ({"topic": "a", "partitions": 0}, "partitions=0"),
        ({"topic": "a", "partitions": "4"}, "partitions='4'"),
        ({"topic": "a", "partitions": True}, "partitions=True"),
        ({"topic": "a", "sequence": 1}, "use contiguous(…)"),
        ({"topic": "a", "unknown": "drop"}, "unknown='drop'; use 'pass' or 'topic'"),
        ({"topic": "a", "inspector": None}, "source 'a': inspector=None: give an Inspector(…) or"),
        ({"topic": "a", "inspector": "id"}, "source 'a': inspector='id': give an Inspector(…) or"),
        ({"topic": "9lives"}, "source '9lives'"),
    ],
    ids=str,
)
def test_a_source_s_mistakes(options: dict[str, Any], words: str) -> None:
    assert words in mistake(shop()[0], **{"inspector": INSPECTOR, **options})


def test_a_source_whose_topic_is_a_view_s_output() -> None:
    topology = Topology("flights")
    reports = topology.source("reports", inspector=INSPECTOR)
    topology.view("movements", of=reports, handler=lambda event: [])
    text = mistake(topology, "flights.movements", inspector=INSPECTOR)
    assert "flights.movements" in text
