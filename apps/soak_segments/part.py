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

import orjson
from aiokafka import AIOKafkaProducer

from sequitur.route.units import RouterUnits
from soak_segments.media import BATCH, MEDIA, Medium
from stores.segments import RowSegments, SegmentLedger, TwoPhaseConsumer
from stores.segments.files import LocalFolder
from stores.segments.ledger import SegmentOwner
from stores.segments.owned_work import OwnedWork
from stores.segments.transports.sql import InboxOutbound, LogInbound
from topology.routing import RoutedSource, Rule, RuleSet, Target

CONSUMER, PUBLISHER = "consumer", "publisher"
TWO_PHASES = "two phases"
"""In the place of segments, between a message log and an inbox: there is no publisher."""
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
    """What parts share. source, target: of MEDIA. segments: as in a router's file, or TWO_PHASES;
    then the log is in a database of its own, where there is a server for the inbox."""

    source_kind: str
    target_kind: str
    segments: str
    database: str
    folder: Path
    servers: Mapping[str, str]
    name: str

    @property
    def source(self) -> Medium:
        servers = {**self.servers}
        if self.segments == TWO_PHASES:
            servers.pop("sql", None)
        return MEDIA[self.source_kind](self.folder, servers)

    @property
    def target(self) -> Medium:
        return MEDIA[self.target_kind](self.folder, self.servers)

    @property
    def roles(self) -> tuple[str, ...]:
        return (CONSUMER,) if self.segments == TWO_PHASES else (CONSUMER, PUBLISHER)

    @property
    def destinations(self) -> list[str]:
        return [f"{self.name}-a", f"{self.name}-b"]

    def value(self, partition: int, number: int) -> str:
        """A message, with where it goes: all to one, every third to both, every fifth nowhere."""
        to = [] if number % 5 == 4 else self.destinations[: 1 + (number % 3 == 2)]
        return orjson.dumps({"at": [partition, number], "to": to}).decode()

    def units(self) -> RouterUnits:
        """The router, which is the user's own."""
        rules = RuleSet(
            1,
            sources=[RoutedSource(self.name, ("to",))],
            rules=[Rule("to", key="to", outbound="to")],
            destinations=dict.fromkeys(self.destinations),
            outbound={"to": {each: Target((each,)) for each in self.destinations}},
        )
        units: dict[str, Any] = {
            "ledger": self.database,
            "errors": {"transport": "target"},
            "lease": 0.3,
            "batch": {"count": BATCH, "idle": 0.01},
        }
        if self.segments == TWO_PHASES:
            units |= {"two_phase": True}
        else:
            units |= {"segments": self.segments, "window": 3_600}
        data = {
            "transport": {"source": self.source.table, "target": self.target.table},
            "units": units,
            "source": {self.name: {"transport": "source"}},
            "destination": {each: {"transport": "target"} for each in self.destinations},
        }
        return RouterUnits(self.name, "soak", rules, data, self.folder)

    def start(self, role: str, step: int | None = None) -> BaseProcess:
        """Start a part, which kills itself at its so-manieth step."""
        process = _FORKING.Process(target=_part, args=(role, self, step), daemon=True)
        process.start()
        return process


def _part(role: str, setting: Setting, step: int | None) -> None:
    logging.basicConfig(filename=setting.folder / f"{role}.log", level=logging.WARNING)
    left = step or 0

    def due(what: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            (setting.folder / "killed").write_text(what)
            os.kill(os.getpid(), signal.SIGKILL)

    units = setting.units()
    consumer = units.consumers("source", role)[setting.name]
    steps = _STEPS | {type(consumer.intake.inbound): ("start", "poll", "acknowledge")}
    works: OwnedWork = consumer
    if isinstance(consumer, TwoPhaseConsumer):
        steps |= {LogInbound: ("start", "poll", "take"), InboxOutbound: ("start", "receive")}
        consumer.step_done = due
    else:
        publisher = units.publishers("target", role)[setting.name]
        steps |= {type(publisher._outbound): ("start", "publish")}
        works = consumer if role == CONSUMER else publisher
    for kind, methods in steps.items() if step else ():
        for method in methods:
            name = f"{kind.__name__}.{method}"
            setattr(kind, method, _with_steps(getattr(kind, method), name, due))
    asyncio.run(works.run(retry=0.1))


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
