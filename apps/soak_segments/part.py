"""A consumer or a publisher of a soak: a process that kills itself at a step, if it is told to."""

import asyncio
import inspect
import logging
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from soak_segments.media import BATCH, MEDIA, Medium
from stores.db.engines import open_engine
from stores.segments import (
    BatchLimits,
    ErrorsAfter,
    FileSegments,
    InboundMessage,
    OutboundMessage,
    Pair,
    PublishedIds,
    Publisher,
    RowSegments,
    SegmentConsumer,
    SegmentLedger,
    UnitIntake,
)
from stores.segments.files import LocalFolder
from stores.segments.ledger import SegmentOwner

CONSUMER, PUBLISHER = "consumer", "publisher"
_STEPS: dict[type, tuple[str, ...]] = {
    SegmentLedger: ("take_over", "keep_source", "open_segment", "advance", "resume", "published"),
    SegmentOwner: ("verify",),
    LocalFolder: ("write", "sync", "sync_folder", "cut", "remove"),
    RowSegments: ("append", "cut", "remove"),
    AIOKafkaProducer: ("begin_transaction", "commit_transaction"),
    Path: ("replace",),
}
"""Before and after each call of these, and of what the transports do, a part may be killed."""

# From a process that has imported what parts need, and has no threads.
_FORKING = get_context("forkserver")
_FORKING.set_forkserver_preload(["soak_segments.part"])


@dataclass(frozen=True)
class Setting:
    """What parts share. source, target: of MEDIA; store: `files`, or `rows` of the database."""

    source_kind: str
    target_kind: str
    store: str
    database: str
    folder: Path
    servers: Mapping[str, str]
    name: str

    @property
    def source(self) -> Medium:
        return MEDIA[self.source_kind](self.folder, self.servers, self.name)

    @property
    def target(self) -> Medium:
        return MEDIA[self.target_kind](self.folder, self.servers, self.name)

    @property
    def destinations(self) -> list[str]:
        return [f"{self.name}-a", f"{self.name}-b"]

    def route(self, value: str) -> list[str]:
        """Which destinations a message has: the first, every third both, every fifth none."""
        number = int(value.partition(":")[2])
        return [] if number % 5 == 4 else self.destinations[: 1 + (number % 3 == 2)]

    def start(self, role: str, step: int | None = None) -> BaseProcess:
        """Start a part, which kills itself at its so-manieth step."""
        process = _FORKING.Process(target=_part, args=(role, self, step), daemon=True)
        process.start()
        return process

    async def work(self, role: str) -> None:
        engine = open_engine(self.database)
        ledger = SegmentLedger(engine, self.name, lease_seconds=0.3)
        files = self.store == "files"
        store = FileSegments(self.folder / "segments") if files else RowSegments(engine)
        limits, errors = BatchLimits(count=BATCH, idle=0.01), ErrorsAfter("target")
        if role == PUBLISHER:
            pair, outbound = Pair(self.name, "target"), self.target.outbound()
            publisher = Publisher(ledger, store, outbound, pair, errors, limits=limits)
            return await publisher.run(retry=0.1)

        def route(message: InboundMessage) -> list[OutboundMessage]:
            value = message.value or b""
            return [OutboundMessage("target", each, value) for each in self.route(value.decode())]

        inbound = self.source.inbound()
        intake = UnitIntake(
            inbound, route, errors, ["target"], site="soak", window=3_600, limits=limits
        )
        ids = PublishedIds(engine, self.name)
        consumer = SegmentConsumer(intake, ledger, store, ids=ids, segment_bytes=1_000)
        return await consumer.run(retry=0.1)


def _part(role: str, setting: Setting, step: int | None) -> None:
    logging.basicConfig(filename=setting.folder / f"{role}.log", level=logging.WARNING)
    left = step or 0

    def due(what: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            (setting.folder / "killed").write_text(what)
            os.kill(os.getpid(), signal.SIGKILL)

    inbound, outbound = type(setting.source.inbound()), type(setting.target.outbound())
    own = {inbound: ("start", "poll", "acknowledge"), outbound: ("start", "publish")}
    for kind, methods in (_STEPS | own).items() if step else ():
        for method in methods:
            setattr(
                kind, method, _with_steps(getattr(kind, method), f"{kind.__name__}.{method}", due)
            )
    asyncio.run(setting.work(role))


def _with_steps(call: Callable[..., Any], name: str, due: Callable[[str], None]) -> Any:
    def called(*arguments: Any, **named: Any) -> Any:
        due(f"before {name}")
        found = call(*arguments, **named)
        due(f"after {name}")
        return found

    async def awaited(*arguments: Any, **named: Any) -> Any:
        due(f"before {name}")
        found = await call(*arguments, **named)
        due(f"after {name}")
        return found

    return awaited if inspect.iscoroutinefunction(call) else called
