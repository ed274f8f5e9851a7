"""What capture, replay server, alerts and sites answer about themselves."""

import asyncio
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import create_engine

from sequitur.alerts.config import AlertsConfig
from sequitur.alerts.pages import AlertPages
from sequitur.alerts.watch import Watch
from sequitur.replay.pages import CapturePages
from sequitur.replay.server.pages import ServerPages
from sequitur.replay.server.service import Service
from sequitur.sites.pages import SitePages
from stores.db.engines import open_engine
from stores.replay import Query, ReplayLog
from stores.replay.capture import TopicCapture
from stores.replay.recoveries import Recoveries
from stores.replay.replay_state import ReplayAction
from stores.replay.replays import ReplayRequest, Replays
from stores.sites.forwarder import Forwarder
from stores.sites.site import Site
from tests.stores.replay.sample import messages
from tests.stores.replay.test_topic_capture import nothing
from tests.stores.segments.fake_transports import LogInbound
from topology.monitoring import Pages


async def figures(pages: Pages) -> dict[str, float]:
    await asyncio.gather(pages.troubles(), pages.measure())
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in pages.registry.collect()
        for sample in family.samples
    }


async def test_a_capture_tells_of_each_topic_and_why_one_fails(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/log.db")
    log, inbound = ReplayLog(engine), LogInbound("moves")
    log.create()
    for n in range(5):
        inbound.add(0, b"%d" % n)
    work = TopicCapture(log, inbound, nothing, site="ewr")
    counts = {"moves": lambda: work.counts + Counter(unread=2)}
    capture: Any = SimpleNamespace(works={"moves": work}, counts=counts, unfit={})
    pages = CapturePages(capture, None, engine)
    work.took = capture.took.labels("moves").observe
    assert await work.step() == 5
    found = await figures(pages)
    assert found["sequitur_capture_state moves owns"] == 1
    assert found["sequitur_capture_messages_total moves captured"] == 5
    assert found["sequitur_capture_messages_total moves unread"] == 2
    assert found["sequitur_capture_batch_seconds_count moves"] == 1
    assert found["sequitur_database_up"] == 1
    assert await pages.troubles() == []
    work.failing = "the disk is full"
    assert await pages.troubles() == ["moves: the disk is full"]
    assert (await figures(pages))["sequitur_capture_state moves failing"] == 1
    await work.stop()
    await pages.stop()


async def test_a_replay_server_tells_what_is_open_and_how_long_queries_take(
    tmp_path: Path,
) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/log.db")
    recoveries = Recoveries(Replays(ReplayLog(engine)))
    recoveries.create()
    replays = recoveries.replays
    replays.log.append("moves", messages(25, metadata={}), {})
    asked = ReplayRequest(Query(), {"*": "again"}, "ann", "a test")
    ids = [replays.preview(asked).id for _ in range(3)]
    replays.act(ids[0], ReplayAction.CANCEL, "ann", "a test")
    replays.act(ids[1], ReplayAction.START, "ann", "a test")
    topics: Any = None
    service = Service(recoveries, topics, {})
    pages = ServerPages(recoveries, service, None, {"taken": 2, "refused": 3})
    await service._queries(lambda: None)
    found = await figures(pages)
    assert found["sequitur_replays previewed"] == found["sequitur_replays running"] == 1
    assert "sequitur_replays cancelled" not in found
    assert found["sequitur_replay_left_messages"] == 50
    assert (found["sequitur_recoveries"], found["sequitur_replay_log_end"]) == (0, 25)
    assert found["sequitur_replay_query_seconds_count"] == 1
    assert found["sequitur_replay_requests_total refused"] == 3
    assert await pages.troubles() == []
    await pages.stop()
    away = ServerPages(recoveries, service, None)
    away._engine = create_engine(f"sqlite:///{tmp_path}/none/log.db")
    assert await away.troubles() == ["the log's database does not answer"]
    await away.stop()


async def test_a_watch_tells_of_alerts_and_of_what_it_does_not_read() -> None:
    given = {
        "name": "w",
        "topics": ["errors"],
        "pattern": [{"name": "any", "quiet": "0s", "actions": ["note"]}],
        "action": {"note": {"command": ["false"], "most": 1}},
    }
    watch = Watch(AlertsConfig.model_validate(given), {})
    pages = AlertPages(watch, None)
    assert await pages.troubles() == ["none of the topics is read"]
    watch.watching, watch.records = True, 7
    watch.alerts["any"] += 2
    for _ in range(2):
        watch.actions.admits("note", 0)
    watch.actions.failed += 1
    found = await figures(pages)
    assert await pages.troubles() == []
    assert found["sequitur_alerts_records_total"] == 7
    assert found["sequitur_alerts_total any"] == 2
    assert found["sequitur_alerts_actions_total failed"] == 1
    assert found["sequitur_alerts_actions_total held_back"] == 1


async def test_forwarding_tells_of_each_way() -> None:
    way = Forwarder(Site("newark", {}), Site("kennedy", {}), "moves")
    pages = SitePages([way], None)
    assert await pages.troubles() == ["moves to kennedy: it has not begun"]
    way.failing, way.forwarded, way.stuck = None, 12, {3: "offsets 0 to 5 were deleted"}
    assert await pages.troubles() == [
        "moves to kennedy: partition 3 stands still: offsets 0 to 5 were deleted"
    ]
    found = await figures(pages)
    assert found["sequitur_sites_forwarded_messages_total moves kennedy"] == 12
    assert found["sequitur_sites_forwarding moves kennedy"] == 1
    assert found["sequitur_sites_stuck_partitions moves kennedy"] == 1
