"""Recovery through the router: what was consumed is routed again, by the rules of now."""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.errors import KafkaError

from sequitur.route.control import Control, ControlTopicMissing
from sequitur.route.loading import load_rules, read_router
from sequitur.route.router_file import load_router, units_control
from sequitur.route.unit_routing import control_topic
from stores.replay import CapturedMessage, Query, ReplayError
from stores.replay.errors import Busy
from stores.replay.replay_tables import Replay
from stores.replay.replaying import Stopped
from stores.replay.republish import TRANSPORT, headers_of
from stores.segments.identity import identify
from stores.segments.message import InboundMessage, OutboundMessage
from topology.engine.route_task import endpoint_topic
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Record
from topology.model.replay_headers import DAY
from topology.routing import Endpoint, Made, RuleSet

Endpoints = Callable[[Path], Iterable[Endpoint]]
"""The endpoints that are registered with the router of a file."""


class _Router(NamedTuple):
    """A router as it is now: its rules with who listens, destination → its topic, if on Kafka."""

    rules: RuleSet
    site: str
    topics: Mapping[str, str]

    def topic_of(self, endpoint: Made | Endpoint) -> str:
        """Where an endpoint reads, empty if that is not on Kafka."""
        topic = self.topics.get(endpoint.destination)
        return "" if topic is None else endpoint_topic(topic, endpoint)

    def written(self) -> list[str]:
        """The topics that it writes to."""
        own = map(self.topic_of, self.rules.registered)
        return sorted({*self.topics.values(), *own} - {""})

    def leading_to(self, wanted: Collection[str]) -> list[str]:
        """The sources of which something may come to one of these topics, as far as rules say."""
        known, found = self.rules.formats.endpoints, list[str]()
        for source, plan in self.rules.plans(self.rules.formats).items():
            names = [name for users in plan.users.values() for name in users]
            read = {self.topic_of(known.get(each) or Endpoint(each, each)) for each in names}
            if not read.isdisjoint(wanted):
                found.append(source)
        return found


class RouterWay:
    """Routes captured inbound messages, for replays; only their targets get anything.

    Args:
        path: of the router's TOML file. All of it is read when a run of a replay begins.
        endpoints: what is registered then; see `registered`.

    Raises:
        DeclarationError: what is wrong in it, and where.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path, endpoints: Endpoints) -> None:
        self._path, self._endpoints = path, endpoints
        self._routers: dict[str, _Router] = {}
        _read(path, ())

    def of_sources(self, query: Query, captured: Collection[str], wanted: Iterable[str]) -> Query:
        """A query of the router's sources alone: of those that are captured, unless it names some.

        Without names, all that lead to a topic that is wanted have to be captured.

        Args:
            query: as it was asked for.
            captured: the topics that are captured.
            wanted: the topics that are to be recovered.

        Raises:
            ReplayError: it names another topic, the router writes nothing to one that is wanted, a
                source of these is not captured, or its file cannot be read.
            KafkaError: who is registered cannot be read.
        """
        try:
            router = self._now()
        except (DeclarationError, OSError) as error:
            raise ReplayError(f"the router's rules: {error}; mend them") from None
        sources, written, wanted = router.rules.sources, router.written(), [*wanted]
        if strange := [each for each in query.topics if each not in sources]:
            known = ", ".join(sources)
            raise ReplayError(f"topic {strange[0]!r} is no source of the router; it has: {known}")
        if strange := [each for each in wanted if each not in written]:
            known = ", ".join(written[:20])
            raise ReplayError(f"the router writes nothing to topic {strange[0]!r}, but to: {known}")
        found = query.topics or tuple(each for each in sources if each in captured)
        if not found:
            raise ReplayError(f"none of the router's sources is captured: {', '.join(sources)}")
        leading = () if query.topics else router.leading_to(wanted)
        if missing := [each for each in leading if each not in captured]:
            raise ReplayError(
                f"the router's source {missing[0]!r} leads to what is wanted, and is not captured: "
                "capture it, or name the sources to recover in the query"
            )
        return replace(query, topics=found)

    def begin(self, replay: str) -> str:
        """See `Ruled`: the digest of the router's file.

        Raises:
            Stopped: it cannot be read.
            Busy: who is registered cannot be read now.
        """
        try:
            digest = hashlib.sha256(self._path.read_bytes()).hexdigest()
            self._routers[replay] = self._now()
        except (DeclarationError, OSError) as error:
            raise Stopped(f"the router's rules: {error}; mend them, and resume") from None
        except KafkaError as error:
            raise Busy(f"the router's control topic: {error!r}") from error
        return f"those of {self._path.name}, sha256 {digest}"

    def end(self, replay: str) -> None:
        """See `Ruled`."""
        self._routers.pop(replay, None)

    def __call__(self, replay: Replay, message: CapturedMessage) -> list[OutboundMessage]:
        """What the replay's targets get of a message, with the ids that the router gives."""
        where = (message.topic, message.partition, message.offset)
        record = Record(*where, message.key, message.value, message.headers, message.time)
        if any(name == DAY for name, _ in message.headers):
            return []
        router = self._routers[replay.id]
        try:
            made = router.rules.make(router.rules.route(record))
        except Malformed:  # it goes to the router's errors, and to nobody else
            return []
        known = identify(InboundMessage(*where, 0, None), router.site)
        headers, found = headers_of(replay, message), []
        for number, each in enumerate(made):
            target = replay.targets.get(router.topic_of(each))
            if target is not None:
                given = (target, each.content, message.key, headers)
                found.append(OutboundMessage(TRANSPORT, *given, id=f"{known.id}/{number}"))
        return found

    def _now(self) -> _Router:
        return _read(self._path, self._endpoints(self._path))


def registered(kafka: Mapping[str, Any], path: Path) -> list[Endpoint]:
    """The endpoints that are registered with a router, as its control topic has them.

    Waits for Kafka, so it is for a thread without an event loop.

    Args:
        kafka: arguments of aiokafka's clients, for a router whose file does not name its broker.
        path: of the router's file.

    Raises:
        DeclarationError: what is wrong in it, and where.
        OSError: it cannot be read.
        KafkaError: Kafka is away.
    """
    if (agreed := units_control(path)) is not None:
        name, login = agreed
    elif "units" in read_router(path):
        return []  # nobody can register
    else:
        file = load_router(path)
        own: dict[str, Any] = {} if file.broker is None else {"bootstrap_servers": file.broker}
        name, login = file.name, {**kafka, **own}
    try:
        log = asyncio.run(Control(control_topic(name), login).read())
    except ControlTopicMissing:  # it has never run
        return []
    return [*log.agreement.endpoints.values()]


def _read(path: Path, endpoints: Iterable[Endpoint]) -> _Router:
    rules, data = load_rules(path), read_router(path)
    kinds = {name: each.get("kind") for name, each in data.get("transport", {}).items()}
    first = next(iter(kinds), None)
    topics = {
        name: str(each.get("address", name))
        for name, each in data.get("destination", {}).items()
        if kinds.get(each.get("transport", first), "kafka") == "kafka"
    }
    rules = rules.with_endpoints(rules.number, endpoints)
    return _Router(rules, str(data.get("router", {}).get("site", "")), topics)
