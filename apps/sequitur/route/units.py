"""A router's units of work: the consumers and publishers that its TOML file describes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError
from sqlalchemy import Engine

from sequitur.alerts.config import Lasting, Seconds, StrictTable
from sequitur.route.transports import Transport, open_transports
from sequitur.route.two_phase_units import check_one_reader, check_two_phase, sql_sides
from sequitur.route.unit_capture import UnitCapture
from sequitur.route.unit_routing import STAGE, UnitRouting, control_topic
from stores.db.engines import open_engine
from stores.db.urls import existing, read_url
from stores.segments import (
    BatchLimits,
    DayMarks,
    Days,
    ErrorsAfter,
    FileSegments,
    Inbound,
    Outbound,
    Pair,
    ParkedPair,
    Parking,
    PublishedIds,
    Publisher,
    RowSegments,
    SegmentConsumer,
    SegmentLedger,
    SegmentStore,
    TwoPhaseConsumer,
    UnitIntake,
)
from stores.segments.chain import segment_prefix
from stores.segments.consumer import BACKLOG
from stores.segments.parked_topic import ParkedTopic
from topology.declaration.route import Reload, Route
from topology.model.errors import DeclarationError, first_of
from topology.model.printable import printable
from topology.routing import RuleSet

if TYPE_CHECKING:
    from sequitur.route.agreed_rules import AgreedRules

ROWS = "rows"
_ONLY_HERE = {"source": ("transport", "place"), "destination": ("transport", "address")}


@dataclass(frozen=True, slots=True)
class Batch(BatchLimits):
    """`BatchLimits` of a file, whose times may be durations."""

    seconds: Seconds = BatchLimits().seconds
    idle: Seconds = BatchLimits().idle


class Save(StrictTable):
    """The table `[units]`.

    Attributes:
        ledger: the URL of the database with START and END, or `@FILE`.
        errors: `transport`, `destination`, `attempts` and `parks` of `ErrorsAfter`.
        segments: a folder beside the file, or "rows".
        lease: seconds after which a dead process's work goes to another.
        backlog: bytes of a pair at which its source pauses.
        window: seconds for which the ids that producers give are believed.
        batch: `count`, `size`, `seconds`, `idle` of `BatchLimits`.
        days: whether ends of days are barriers, for which all partitions wait.
        two_phase: from SQL to SQL, without segments: each unit is one transaction.
        control: the transport, of Kafka, by whose control topic processes agree on listeners and
            versions; None: there are no listeners, and the rules are read at the start.
        capture: the replay log's file, beside this one, by which what is promised is kept in the
            replay log, in the ledger's database; None: it is not.
    """

    ledger: str
    errors: ErrorsAfter
    segments: str = Field(default="segments", min_length=1)
    lease: Lasting = 10.0
    backlog: int = Field(default=BACKLOG, ge=1)
    window: Lasting | None = None
    batch: Batch = Batch()
    days: bool = False
    two_phase: bool = False
    control: str | None = None
    capture: str | None = None


class RouterUnits:
    """The consumers and publishers of a router.

    Args:
        name: the router's.
        site: where it is; part of the ids.
        rules: where messages go.
        data: the file's tables `transport`, `units`, `source` and `destination`.
        folder: of the file.
        reload: loads a version, where processes agree on them.
        there: whether the ledger is only looked at, so that a file of SQLite has to be there.

    Raises:
        DeclarationError: what is wrong, and where.
        UrlError: the ledger is not there.
    """

    def __init__(
        self,
        name: str,
        site: str,
        rules: RuleSet,
        data: Mapping[str, Any],
        folder: Path,
        reload: Reload | None = None,
        *,
        there: bool = False,
    ) -> None:
        self.name, self._site, self.rules = name, site, rules
        self.transports = open_transports(data.get("transport", {}), folder)
        self._save = _save(data.get("units", {}))
        self._failures, self._limits = self._save.errors, self._save.batch
        self.sources = self._places("source", data, "place", "inbound")
        self.destinations = self._places("destination", data, "address", "outbound")
        self._transport("units: errors", self._failures.transport, "outbound")
        self._check_control()
        agreeing = None if self._save.control is None else partial(self._agreeing, reload)
        self.routing = UnitRouting(site, rules, self.destinations, self._save.window, agreeing)
        self._used = {name for name, _ in self.destinations.values()} | {self._failures.transport}
        self._check_ends()
        inbounds = {topic: self.inbound(topic) for topic in self.sources}
        check_one_reader(inbounds)
        if self._save.two_phase:
            if self._failures.parks:
                raise DeclarationError("units: errors: parks needs segments; leave out two_phase")
            check_two_phase(data["units"], inbounds, self._outbounds())
        self.url = read_url(self._save.ledger)
        if there:
            existing(self.url)
        self.engine: Engine = open_engine(self.url)
        self.ledger = SegmentLedger(self.engine, name, lease_seconds=self._save.lease)
        self.store: SegmentStore
        self._check_names()
        if self._save.segments == ROWS:
            self.store = rows = RowSegments(self.engine)
            rows.create()
        else:
            self.store = FileSegments(folder / self._save.segments)
        self.ledger.create()
        self.ids = PublishedIds(self.engine, name)
        self.ids.create()
        self.parking = Parking(self.engine, name)
        self.parking.create()
        if self._save.two_phase and self.parking.streams():
            raise DeclarationError(
                "two_phase = true, and streams are parked, which only segments take up again: set "
                "it to false, let route redrive end them, and set it again"
            )
        self.days = Days(self.ledger, self.sources, self._used) if self._save.days else None
        self._capture: UnitCapture | None = None
        if self._save.capture is not None:
            if self._save.two_phase:
                raise DeclarationError("units: capture: with two_phase = true there is no END")
            file = folder / self._save.capture
            self._capture = UnitCapture(file, self.engine, self.url, site)

    def _check_names(self) -> None:
        try:
            for topic in self.sources:
                for transport in self._used:
                    segment_prefix(self.name, Pair(topic, transport))
        except ValueError as error:
            raise DeclarationError(str(error)) from None

    def consuming(self) -> list[str]:
        """The transports of the sources."""
        return sorted({name for name, _ in self.sources.values()})

    def publishing(self) -> list[str]:
        """The transports of the destinations, and of what is left in segments.

        Raises:
            DeclarationError: there are no segments.
        """
        if self._save.two_phase:
            raise DeclarationError(
                "two_phase = true: route consume publishes, too; there is nothing else to start"
            )
        left = {pair.transport for pair in self.ledger.pairs()}
        return sorted(self._used | (left & {*self.transports}))

    def inbound(self, topic: str) -> Inbound:
        """A source's side of its transport, which is not started."""
        name, place = self.sources[topic]
        make = self.transports[name].inbound
        assert make is not None
        return make(topic, place, self.name)

    def consumers(
        self, transport: str, holder: str
    ) -> dict[str, SegmentConsumer] | dict[str, TwoPhaseConsumer]:
        """Topic → its consumer, of the sources of a transport."""
        topics = [topic for topic, (name, _) in self.sources.items() if name == transport]
        if self._save.two_phase:
            return {topic: self._two_phase(topic, holder) for topic in topics}
        return {
            topic: SegmentConsumer(
                self._intake(self.inbound(topic)),
                self.ledger,
                self.store,
                holder=holder,
                backlog=self._save.backlog,
                ids=self.ids,
                days=self.days,
                keep=None if self._capture is None else self._capture.note,
            )
            for topic in topics
        }

    def _intake(self, inbound: Inbound) -> UnitIntake:
        return UnitIntake(
            inbound,
            self.routing.route,
            self._failures,
            self._used,
            site=self._site,
            window=self._save.window,
            limits=self._limits,
            prepare=partial(self.routing.prepare, inbound.topic),
            parked=None if self._save.two_phase else self._parked(inbound.topic),
        )

    def _parked(self, topic: str) -> ParkedTopic:
        return ParkedTopic(self.parking, topic, parks=self._failures.parks)

    def _agreeing(self, reload: Reload | None) -> "AgreedRules":
        from sequitur.route.agreed_rules import AgreedRules  # with it comes Faust

        name = self._save.control
        kafka = self.transports[str(name)].kafka
        assert kafka is not None
        to = {each: address for each, (_, address) in self.destinations.items()}
        route = Route(STAGE, self.rules, 1, to, reload, control_topic(self.name))
        server = self.transports[str(name)].server
        within = {
            each
            for each, (at, _) in self.destinations.items()
            if at == name or (server and self.transports[at].server == server)
        }
        return AgreedRules(route, kafka, within)

    def _check_control(self) -> None:
        name = self._save.control
        if name is not None and (name not in self.transports or not self.transports[name].kafka):
            known = ", ".join(each for each, one in self.transports.items() if one.kafka) or "none"
            raise DeclarationError(
                f"units: control = {printable(repr(name))}; give a transport of Kafka: {known}"
            )
        for rule in self.rules.formats.broadcasts.values():
            if name is None:
                raise DeclarationError(
                    f"rule {rule.rule!r}: no listener can register, so that its broadcast would "
                    "reach nobody; set control in [units] to a transport of Kafka, whose control "
                    "topic has the listeners"
                )

    def _check_ends(self) -> None:
        """Raises DeclarationError where a source would read what is written here."""
        read = {(self.transports[at].server, place) for at, place in self.sources.values()}
        written = [(f"destination {name!r}", *to) for name, to in self.destinations.items()]
        written += [("units: errors", at, self._failures.destination) for at in self._used]
        for what, at, place in written:
            if (server := self.transports[at].server) and (server, place) in read:
                raise DeclarationError(f"{what}: {place!r} is a source; that has no end")

    def _two_phase(self, topic: str, holder: str) -> TwoPhaseConsumer:
        log, inboxes = sql_sides(topic, self.inbound(topic), self._outbounds())
        return TwoPhaseConsumer(
            self._intake(log), log, inboxes, self.ledger, self.ids, holder=holder
        )

    def _outbounds(self) -> dict[str, Outbound]:
        made = {name: self.transports[name].outbound for name in sorted(self._used)}
        return {name: make(self.name) for name, make in made.items() if make is not None}

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
                pair := Pair(topic, transport),
                self._failures,
                holder=holder,
                limits=self._limits,
                days=marks,
                parked=ParkedPair(self.parking, pair, parks=self._failures.parks),
            )
            for topic in sorted({*self.sources, *left})
        }

    def _places(
        self, kind: str, data: Mapping[str, Any], where: str, side: str
    ) -> dict[str, tuple[str, str]]:
        """Name → its transport, and what it is called there."""
        found = {}
        for name, given in data.get(kind, {}).items():
            what = f"{kind} {printable(name)!r}"
            transport = given.get("transport", next(iter(self.transports), None))
            self._transport(what, transport, side)
            place = given.get(where, name)
            if not (isinstance(place, str) and place):
                raise DeclarationError(f"{what}: {where} = {printable(repr(place))}; give a text")
            found[name] = (str(transport), place)
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


def _save(given: object) -> Save:
    try:
        return Save.model_validate(given)
    except ValidationError as error:
        raise DeclarationError(f"units: {first_of(error)}") from None
