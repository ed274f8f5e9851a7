"""Sources: their topics, and the mistakes in declaring them."""

from typing import Any

import pytest

from topology import DeclarationError, Inspector, Source, Topology, ask, contiguous
from topology.declaration.sent_messages import DeclaredView

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


def _views(topology: Topology, *names: str) -> tuple[DeclaredView, ...]:
    return tuple(topology.view(each, of="orders", handler=lambda event: None) for each in names)


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda t: _views(t, "order.board", "order_board"), "has another use; rename"),
        (lambda t: _views(t, "dead-records"), "has another use; rename"),
        (lambda t: t.source("shop.malformed", name="bad", inspector=INSPECTOR), "malformed' of"),
        (lambda t: t.source("shop.errors", name="bad", inspector=INSPECTOR), "errors' of"),
        (lambda t: t.source("shop.orders.by-stream", name="b", inspector=INSPECTOR, keyed=True),
         "is the by-stream topic of"),
        (lambda t: [t.source("a", name="web.orders", inspector=INSPECTOR),
                    t.source("b", name="web_orders", inspector=INSPECTOR)],
         "by-stream topic .* already"),
        (lambda t: [_views(t, "later.by-stream"),
                    t.source("in", name="later", inspector=INSPECTOR)],
         "by-stream topic .* already"),
        (lambda t: ask("web orders"), "topic 'web orders.resend'"),
        (lambda t: ask("x" * 243), "1 to 249"),
    ],
)  # fmt: skip
def test_topics_that_cannot_be_or_that_are_one_to_kafka_are_refused(
    declare: Any, reason: str
) -> None:
    """A worker could not start with them, or read what it wrote."""
    topology = Topology("shop")
    topology.source("orders", inspector=INSPECTOR)
    with pytest.raises(DeclarationError, match=reason):
        declare(topology)
