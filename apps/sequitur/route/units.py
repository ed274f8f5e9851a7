"""A router's units of work: the consumers and publishers that its TOML file describes."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from sequitur.route.transports import Transport, open_transports
from stores.db.engines import open_engine
from stores.db.urls import read_url
from stores.segments import (
    BatchLimits,
    DayMarks,
    Days,
    ErrorsAfter,
    FileSegments,
    Inbound,
    InboundMessage,
    OutboundMessage,
    Pair,
    PublishedIds,
    Publisher,
    RowSegments,
    SegmentConsumer,
    SegmentLedger,
    SegmentStore,
    UnitIntake,
)
from stores.segments.consumer import BACKLOG
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Record
from topology.model.printable import printable
from topology.routing import RuleSet

ROWS = "rows"
_RULES, _ORIGIN = "sequitur-rules", "sequitur-origin"
_ONLY_HERE = {"source": ("transport", "place"), "destination": ("transport", "address")}


@dataclass(frozen=True, slots=True)
class Save:
    """The table `[units]`.

    Attributes:
        ledger: the URL of the database with START and END, or `@FILE`.
        errors: `transport`, `destination` and `attempts` of `ErrorsAfter`.
        segments: a folder beside the file, or "rows".
        lease: seconds after which a dead process's work goes to another.
        backlog: bytes of a pair at which its source pauses.
        window: seconds for which the ids that producers give are believed.
        batch: `count`, `size`, `seconds`, `idle` of `BatchLimits`.
        days: whether ends of days are barriers, for which all partitions wait.
    """

    ledger: str
    errors: Mapping[str, Any]
    segments: str = "segments"
    lease: float = 10.0
    backlog: int = BACKLOG
    window: float | None = None
    batch: Mapping[str, Any] = field(default_factory=dict)
    days: bool = False


class RouterUnits:
    """The consumers and publishers of a router.

    Args:
        name: the router's.
        site: where it is; part of the ids.
        rules: where messages go.
        data: the file's tables `transport`, `units`, `source` and `destination`.
        folder: of the file.

    Raises:
        DeclarationError: what is wrong, and where.
    """

    def __init__(
        self, name: str, site: str, rules: RuleSet, data: Mapping[str, Any], folder: Path
    ) -> None:
        self.name, self._site, self.rules = name, site, rules
        for rule in rules.formats.broadcasts.values():
            raise DeclarationError(
                f"rule {rule.rule!r}: no listener registers with consume and publish, so that its "
                "broadcast would reach nobody; let route serve broadcast, from a topic in Kafka"
            )
        self.transports = open_transports(data.get("transport", {}), folder)
        self._save: Save = _made(Save, "units", data.get("units", {}))
        self._failures: ErrorsAfter = _made(ErrorsAfter, "units: errors", self._save.errors)
        self._limits: BatchLimits = _made(BatchLimits, "units: batch", self._save.batch)
        self.sources = self._places("source", data, "place", "inbound")
        self.destinations = self._places("destination", data, "address", "outbound")
        self._transport("units: errors", self._failures.transport, "outbound")
        self._used = {name for name, _ in self.destinations.values()} | {self._failures.transport}
        self.url = read_url(self._save.ledger)
        self.engine: Engine = open_engine(self.url)
        self.ledger = SegmentLedger(self.engine, name, lease_seconds=self._save.lease)
        self.store: SegmentStore
        if self._save.segments == ROWS:
            self.store = rows = RowSegments(self.engine)
            rows.create()
        else:
            self.store = FileSegments(folder / self._save.segments)
        self.ledger.create()
        self.ids = PublishedIds(self.engine, name)
        self.ids.create()
        self.days = Days(self.ledger, self.sources, self._used) if self._save.days else None
        self.counts: Counter[str] = Counter()
        """Messages "unrouted": those that have no destination."""

    def consuming(self) -> list[str]:
        """The transports of the sources."""
        return sorted({name for name, _ in self.sources.values()})

    def publishing(self) -> list[str]:
        """The transports of the destinations, and of what is left in segments."""
        left = {pair.transport for pair in self.ledger.pairs()}
        return sorted(self._used | (left & {*self.transports}))

    def inbound(self, topic: str) -> Inbound:
        """A source's side of its transport, which is not started."""
        name, place = self.sources[topic]
        make = self.transports[name].inbound
        assert make is not None
        return make(topic, place)

    def consumers(self, transport: str, holder: str) -> dict[str, SegmentConsumer]:
        """Topic → its consumer, of the sources of a transport."""
        found = {}
        for topic, (name, _) in self.sources.items():
            if name == transport:
                intake = UnitIntake(
                    self.inbound(topic),
                    self.route,
                    self._failures,
                    self._used,
                    site=self._site,
                    window=self._save.window,
                    limits=self._limits,
                )
                found[topic] = SegmentConsumer(
                    intake,
                    self.ledger,
                    self.store,
                    holder=holder,
                    backlog=self._save.backlog,
                    ids=self.ids,
                    days=self.days,
                )
        return found

    def publishers(self, transport: str, holder: str) -> dict[str, Publisher]:
        """Topic → the publisher of its pair with a transport."""
        make = self.transports[transport].outbound
        if make is None:
            return {}
        left = {pair.topic for pair in self.ledger.pairs() if pair.transport == transport}
        there = {transport: {at for name, at in self.destinations.values() if name == transport}}
        marks = DayMarks(self.days, self._site, there) if self.days is not None else None
        return {
            topic: Publisher(
                self.ledger,
                self.store,
                make(self.name),
                Pair(topic, transport),
                self._failures,
                holder=holder,
                limits=self._limits,
                days=marks,
            )
            for topic in sorted({*self.sources, *left})
        }

    def route(self, message: InboundMessage) -> list[OutboundMessage]:
        """What comes of a message. Raises Malformed."""
        where = (message.topic, message.partition, message.offset)
        routing = self.rules.route(Record(*where, message.key, message.value, message.headers))
        if routing.reason is not None:
            raise Malformed(routing.reason)
        self.counts["unrouted"] += not routing.destinations
        own = {_RULES: b"%d" % routing.version}
        if message.replayable:
            own[_ORIGIN] = "/".join(map(str, where)).encode()
        headers = (*(each for each in message.headers if each[0] not in own), *own.items())
        return [
            OutboundMessage(
                *self.destinations[each.destination],
                each.content,
                message.key,
                headers,
                message.stream,
                message.sequence,
            )
            for each in self.rules.make(routing)
        ]

    def _places(
        self, kind: str, data: Mapping[str, Any], where: str, side: str
    ) -> dict[str, tuple[str, str]]:
        """Name → its transport, and what it is called there."""
        found = {}
        for name, given in data.get(kind, {}).items():
            what = f"{kind} {printable(name)!r}"
            transport = given.get("transport", next(iter(self.transports), None))
            self._transport(what, transport, side)
            found[name] = (str(transport), str(given.get(where, name)))
        return found

    def _transport(self, what: str, name: object, side: str) -> None:
        made: Transport | None = self.transports.get(str(name))
        if made is None or getattr(made, side) is None:
            known = [each for each, one in self.transports.items() if getattr(one, side)]
            raise DeclarationError(
                f"{what}: transport = {printable(repr(name))}; give one that has an {side} side: "
                f"{', '.join(known)}"
            )


def without_places(data: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of rules alone, as `rules_from` takes them."""
    rules = {
        kind: part for kind, part in data.items() if kind not in ("router", "transport", "units")
    }
    for kind, names in _ONLY_HERE.items():
        if isinstance(parts := rules.get(kind), Mapping):
            rules[kind] = {
                name: {n: v for n, v in part.items() if n not in names}
                if isinstance(part, Mapping)
                else part
                for name, part in parts.items()
            }
    return rules


def _made(make: Any, what: str, given: object) -> Any:
    if not isinstance(given, Mapping):
        raise DeclarationError(f"{what}: write a table")
    try:
        signature(make).bind(**given)
        return make(**given)
    except (TypeError, ValueError) as error:
        raise DeclarationError(f"{what}: {printable(error)}") from None
