"""Routes one partition of a topic: each message to the topics of its destinations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from topology.declaration.route import Route
from topology.declaration.side_topics import SideTopics
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import IntakeCounts, encode_intake
from topology.engine.stream_task import malformed
from topology.model.errors import Malformed
from topology.model.event import Damaged, Message
from topology.model.origin_headers import ORIGIN, origin
from topology.routing import Detail, Endpoint, Made, Routing, Trace
from topology.routing.broadcasts import broadcast_headers

TRAIL = "sequitur-trail"
"""The header of a message that failed: how the rules looked at it."""
TRAIL_BYTES = 8_000
"""Bytes of that header, at most."""
RECORD_BYTES = 512 << 10
"""Bytes of a trail's record, at most."""


class RouteTask:
    """Routes messages.

    Attributes:
        intake: what became of them; those without a destination are unknown.
        rules: by which it routes from now on.
        trace: which trails are written from now on.
        refused: offset → why its message fails, of those that Kafka refuses.
        log_trail: takes a trail, where they do not go to a topic.
    """

    def __init__(
        self, topology: SideTopics, route: Route, intake: IntakeCounts | None = None
    ) -> None:
        self._topology, self._route, self._to = topology, route, route.to
        self.rules = route.rules
        self.trace = Trace()
        self.refused: Mapping[int, str] = {}
        self.log_trail: Callable[[Routing], None] = lambda _: None
        self.intake = IntakeCounts() if intake is None else intake

    def process(self, records: Sequence[Message], now: int) -> CommitUnit:
        """One step: each message once to each of its destinations, or to the malformed topic."""
        last = records[-1]
        unit = CommitUnit(last.topic, last.partition, last.offset + 1, now=now)
        detail, every = self.trace.detail, self.trace.every
        lost: dict[str, int] = {}
        for record in records:
            traced = detail != "none" and record.offset % every == 0
            routing, made = self._routed(record, detail if traced else "none")
            if traced:
                self._trail(routing, unit, now, lost)
            if routing.reason is not None:
                malformed(self._topology, record, unit, Malformed(routing.reason), now)
                self._add_trail(unit, record)
                continue
            if not routing.destinations:
                unit.unknown += 1
                continue
            headers = [*record.headers, (ORIGIN, origin(record)), routing.header]
            for each in made:
                topic = endpoint_topic(self._to[each.destination], each)
                if record.key is None:  # the partition that it comes from decides
                    unit.settled.add(topic)
                own = headers
                if each.broadcast is not None:
                    place, rules = (record.topic, record.partition, record.offset), self.rules
                    own = [*own, *broadcast_headers(rules.site, rules.unit, place, each.broadcast)]
                unit.keyed[topic].append((record.key, each.content, now, own))
        unit.reports += [f"{n} trails are not written: {why}" for why, n in lost.items()]
        self.intake.read += len(records)
        self.intake.malformed += unit.malformed
        self.intake.unknown += unit.unknown
        unit.intake = encode_intake(self.intake)
        return unit

    def _routed(self, record: Message, detail: Detail) -> tuple[Routing, list[Made]]:
        """Where a message goes, and as what, after as many attempts as it has; or why it failed.

        It is decided once, also where its trail is written.
        """
        rules, attempts = self.rules, self._route.attempts
        if isinstance(record, Damaged):
            return Routing(rules.number, record, (), record.reason), []
        refused = self.refused.get(record.offset) if self.refused else None
        while True:
            attempts -= 1
            routing = rules.route(record, detail)
            if refused is not None:
                routing.reason, attempts = refused, 0
            elif routing.reason is None:
                try:
                    return routing, rules.make(routing)
                except Malformed as error:
                    routing.reason = str(error)
            if attempts <= 0:
                routing.destinations = ()
                return routing, []

    def _add_trail(self, unit: CommitUnit, record: Message) -> None:
        """Note at the message that failed how the rules looked at it."""
        if not isinstance(record, Damaged):
            trail = str(self.rules.route(record, "all")).encode("utf-8", "backslashreplace")
            headers = unit.keyed[self._topology.malformed_topic][-1][3]
            headers.insert(-2, (TRAIL, trail[:TRAIL_BYTES]))

    def _trail(self, routing: Routing, unit: CommitUnit, now: int, lost: dict[str, int]) -> None:
        """Write a message's trail: with the unit, or by the log."""
        record = routing.message
        if isinstance(record, Damaged):
            return
        if not self._route.trails:
            self.log_trail(routing)
            return
        try:
            data = trail_data(self._route, routing)
            value = None if data is None else orjson.dumps(data, default=str)
        except Exception as error:
            value, why = None, f"{type(error).__name__}"
            lost[why] = lost.get(why, 0) + 1
        if value is not None and len(value) > RECORD_BYTES:
            lost["too large"] = lost.get("too large", 0) + 1
        elif value is not None:
            out = record.key, value, now, [(ORIGIN, origin(record)), routing.header]
            unit.colocated[self._route.trails].append(out)


def trail_data(route: Route, routing: Routing) -> Mapping[str, Any] | None:
    """A trail as the stage's function lets it be written; None if it drops it."""
    found = routing.as_dict()
    return found if route.trail_function is None else route.trail_function(found)


def endpoint_topic(topic: str, endpoint: Made | Endpoint) -> str:
    """Where an endpoint reads: the destination's topic, or one beside it that has its name."""
    own = endpoint.endpoint if isinstance(endpoint, Made) else endpoint.name
    return topic if own == endpoint.destination else f"{topic}.{own}"
