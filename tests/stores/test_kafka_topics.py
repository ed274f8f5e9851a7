"""No client of ours makes a topic by asking for it, and a topic that is made is there."""

import re
from collections.abc import Callable

import grimp
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.protocol.metadata import MetadataRequest, MetadataRequest_v5

from sequitur.local.home import ROOT
from stores.kafka_topics import CannotMakeTopic, create_topics, partitions_there
from tests.conftest import BrokerAddress

_CLIENT = re.compile(r"\bAIOKafka(Consumer|Producer|AdminClient|Client)\(")


def test_no_request_for_metadata_has_a_broker_make_a_topic() -> None:
    request = MetadataRequest(["mistyped"]).build(MetadataRequest_v5)
    assert request.to_object() == {"topics": ["mistyped"], "allow_auto_topic_creation": False}


def test_whoever_has_a_client_is_held_to_it() -> None:
    graph = grimp.build_graph("topology", "stores", "sequitur", cache_dir=None)
    having = []
    for folder in (ROOT / "topology", ROOT / "stores", ROOT / "apps" / "sequitur"):
        for path in folder.rglob("*.py"):
            if _CLIENT.search(path.read_text()):
                parts = path.relative_to(folder.parent).with_suffix("").parts
                having.append(".".join(parts).removesuffix(".__init__"))
    assert len(having) > 30
    there = "stores.kafka_topics"
    free = [
        each
        for each in having
        if each != there and graph.find_shortest_chain(importer=each, imported=there) is None
    ]
    assert free == [], "import stores.kafka_topics"


@pytest.mark.integration
async def test_a_topic_that_was_made_is_there_and_one_that_cannot_be_is_named(
    broker: BrokerAddress, unique: Callable[[str], str]
) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await admin.start()
    try:
        one, two = NewTopic(unique("one"), 1, 1), NewTopic(unique("two"), 2, 1)
        await create_topics(admin, [one])
        await create_topics(admin, [one, two])
        asked = [two.name, one.name, two.name, unique("none"), "no such/name", "x" * 300]
        assert await partitions_there(admin, asked) == {one.name: 1, two.name: 2}
        assert await partitions_there(admin, []) == {}
        wrong = NewTopic(unique("three"), 1, 1, topic_configs={"cleanup.policy": "never"})
        with pytest.raises(CannotMakeTopic, match=f"cannot create topic '{wrong.name}': .*never"):
            await create_topics(admin, [wrong])
    finally:
        await admin.close()
