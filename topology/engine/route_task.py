"""Routes one partition of a topic: each message to the topics of its destinations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from topology.declaration.route import Route
from topology.declaration.side_topics import SideTopics
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import IntakeCounts, encode_intake
from topology.engine.parked_messages import ParkedMessages, stream_of
from topology.engine.stream_task import malformed
from topology.model.errors import Malformed
from topology.model.event import Damaged, Message
from topology.model.large import too_large
from topology.model.origin_headers import ORIGIN, origin
from topology.routing import Detail, Endpoint, Made, Routing, Trace
from topology.routing.broadcasts import broadcast_headers

TRAIL = "sequitur-trail"
"""The header of a message that failed: how the rules looked at it."""
TRAIL_BYTES = 8_000
"""Bytes of that header, at most."""
REDRIVEN = "sequitur-redriven"
"""The header of a message that was parked before it was routed."""
RECORD_BYTES = 512 << 10
"""Bytes of a trail's record, at most."""


class RouteTask:
    """Routes messages.

    Attributes:
        intake: what became of them; those without a destination are unknown.
        rules: by which it routes from now on.
        trace: which trails are written from now on.
        refused: origin of a message → why it fails, of those that Kafka refuses.
        parked: the streams that are set aside; None where what fails goes to the malformed topic.
        log_trail: takes a trail, where they do not go to a topic.
    """

    def __init__(
        self,
        topology: SideTopics,
        route: Route,
        intake: IntakeCounts | None = None,
        parked: ParkedMessages | None = None,
    ) -> None:
        self._topology, self._route, self._to = topology, route, route.to
        self.rules = route.rules
        self.trace = Trace()
        self.refused: Mapping[str, str] = {}
        self.log_trail: Callable[[Routing], None] = lambda _: None
        self.intake = IntakeCounts() if intake is None else intake
        self.parked = parked

    def process(self, records: Sequence[Message], now: int) -> CommitUnit:
        """One step: each message once to each of its destinations, or to the malformed topic."""
        last = records[-1]
        unit = CommitUnit(last.topic, last.partition, last.offset + 1, now=now)
        detail, every = self.trace.detail, self.trace.every
        lost: dict[str, int] = {}
        parked = self.parked
        for record in records:
            behind = parked is not None and parked.has_stream_of(record)
            if behind and not isinstance(record, Damaged):
                self._park(record, parked, unit, "")
                continue
            traced = detail != "none" and record.offset % every == 0
            routing, made = self._routed(record, detail if traced else "none")
            if traced:
                self._trail(routing, unit, now, lost)
            if routing.reason is not None:
                self._park(record, parked, unit, routing.reason)
                continue
            if not routing.destinations:
                unit.unknown += 1
                continue
            self._send(
                record, made, [*record.headers, (ORIGIN, origin(record)), routing.header], unit
            )
        unit.reports += [f"{n} trails are not written: {why}" for why, n in lost.items()]
        return self._counted(unit, len(records))

    def release(self, place: tuple[str, int], now: int) -> CommitUnit | None:
        """One step: some messages of a stream that is let go are routed, until one fails again.

        Args:
            place: the topic and the partition.
            now: the time (ms).

        Returns:
            What is made durable with them; None if no stream is let go.
        """
        parked = self.parked
        if parked is None or not parked.releasing:
            return None
        unit = CommitUnit(*place, now=now)
        stream, without = next(iter(parked.releasing.items()))
        if not (waiting := list(parked.first(stream))):
            parked.forget(stream)
            return None
        for number, record in enumerate(waiting):
            if record.offset == without and number == 0:
                self._park(record, None, unit, "its stream goes on without it, as somebody said")
            else:
                routing, made = self._routed(record, "none")
                if routing.reason is not None:
                    parked.releasing.pop(stream)
                    self._park(record, parked, unit, routing.reason, again=True)
                    break
                own = (ORIGIN, origin(record)), routing.header, (REDRIVEN, b"1")
                unit.unknown += not routing.destinations
                self._send(record, made, [*record.headers, *own], unit)
            parked.remove(record, unit)
        return self._counted(unit)

    def _send(
        self,
        record: Message,
        made: Sequence[Made],
        headers: list[tuple[str, bytes]],
        unit: CommitUnit,
    ) -> None:
        for each in made:
            topic = endpoint_topic(self._to[each.destination], each)
            if record.key is None:  # the partition that it comes from decides
                unit.settled.add(topic)
            own = headers
            if each.broadcast is not None:
                place, rules = (record.topic, record.partition, record.offset), self.rules
                own = [*own, *broadcast_headers(rules.site, rules.unit, place, each.broadcast)]
            unit.keyed[topic].append((record.key, each.content, unit.now, own))

    def _park(
        self,
        record: Message,
        parked: ParkedMessages | None,
        unit: CommitUnit,
        reason: str,
        *,
        again: bool = False,
    ) -> None:
        """Park a message that failed, or is behind one; else it goes to the malformed topic."""
        if parked is None or isinstance(record, Damaged) or too_large(record):
            why = reason or too_large(record) or ""
            malformed(self._topology, record, unit, Malformed(why), unit.now)
            self._add_trail(unit, record)
            return
        if (other := parked.add(record, reason, unit, again=again)) is not None:
            why = "it was parked, and its topic was made anew: another message has its place"
            self._park(other, None, unit, why)
        if reason:
            place = f"{record.topic}/{record.partition}/{record.offset}"
            stream = stream_of(record)
            unit.reports.append(
                f"route {self._route.name}: stream {stream} is parked at {place}: {reason}"
            )

    def _counted(self, unit: CommitUnit, read: int = 0) -> CommitUnit:
        self.intake.take(read, unit.malformed, unit.unknown)
        self.intake.parked = 0 if self.parked is None else self.parked.total
        unit.intake = encode_intake(self.intake)
        return unit

    def _routed(self, record: Message, detail: Detail) -> tuple[Routing, list[Made]]:
        """Where a message goes, and as what, after as many attempts as it has; or why it failed.

        It is decided once, also where its trail is written.
        """
        rules, attempts = self.rules, self._route.attempts
        if isinstance(record, Damaged):
            return Routing(rules.number, record, (), record.reason), []
        refused = self.refused.get(origin(record).decode()) if self.refused else None
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
        except BaseException as error:
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
