"""Recovery through the router: what was consumed is routed again, by the rules of now."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sequitur.route.loading import load_rules, read_router
from stores.replay import CapturedMessage, Query, ReplayError
from stores.replay.replay_tables import Replay
from stores.replay.replaying import Stopped
from stores.replay.republish import TRANSPORT, headers_of
from stores.segments.identity import identify
from stores.segments.message import InboundMessage, OutboundMessage
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Record
from topology.model.replay_headers import DAY
from topology.routing import RuleSet


class _Router(NamedTuple):
    """A router as its file is: destination → its topic, of those on Kafka."""

    rules: RuleSet
    site: str
    topics: Mapping[str, str]


class RouterWay:
    """Routes captured inbound messages, for replays; only their targets get anything.

    Args:
        path: of the router's TOML file. All of it is read when a run of a replay begins.

    Raises:
        DeclarationError: what is wrong in it, and where.
        OSError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._routers: dict[str, _Router] = {}
        _read(path)

    def of_sources(self, query: Query, captured: Collection[str]) -> Query:
        """A query of the router's sources alone: of those that are captured, unless it names some.

        Args:
            query: as it was asked for.
            captured: the topics that are captured.

        Raises:
            ReplayError: it names another topic, or the router's file cannot be read.
        """
        try:
            sources = load_rules(self._path).sources
        except (DeclarationError, OSError) as error:
            raise ReplayError(f"the router's rules: {error}; mend them") from None
        if strange := [each for each in query.topics if each not in sources]:
            known = ", ".join(sources)
            raise ReplayError(f"topic {strange[0]!r} is no source of the router; it has: {known}")
        found = query.topics or tuple(each for each in sources if each in captured)
        if not found:
            raise ReplayError(f"none of the router's sources is captured: {', '.join(sources)}")
        return replace(query, topics=found)

    def begin(self, replay: str) -> str:
        """See `Ruled`: the digest of the router's file. Raises Stopped: it cannot be read."""
        try:
            digest = hashlib.sha256(self._path.read_bytes()).hexdigest()
            self._routers[replay] = _read(self._path)
        except (DeclarationError, OSError) as error:
            raise Stopped(f"the router's rules: {error}; mend them, and resume") from None
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
            target = replay.targets.get(router.topics.get(each.destination, ""))
            if target is not None:
                given = (target, each.content, message.key, headers)
                found.append(OutboundMessage(TRANSPORT, *given, id=f"{known.id}/{number}"))
        return found


def _read(path: Path) -> _Router:
    rules, data = load_rules(path), read_router(path)
    kinds = {name: each.get("kind") for name, each in data.get("transport", {}).items()}
    first = next(iter(kinds), None)
    topics = {
        name: str(each.get("address", name))
        for name, each in data.get("destination", {}).items()
        if kinds.get(each.get("transport", first), "kafka") == "kafka"
    }
    return _Router(rules, str(data["router"].get("site", "")), topics)
