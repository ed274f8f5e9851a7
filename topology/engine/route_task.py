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
from topology.routing import Endpoint, Made, Routing, Trace

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
        refused: offset → why its message fails, of those that Kafka refuses.
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
        self.refused: Mapping[int, str] = {}
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
                self._park(record, parked, unit, Malformed(""))
                continue
            try:
                routing, made = self._routed(record)
            except Malformed as reason:
                self._park(record, parked, unit, reason)
                continue
            finally:
                if detail != "none" and record.offset % every == 0:
                    self._trail(record, unit, now, lost)
            if not routing.destinations:
                unit.unknown += 1
                continue
            headers = [*record.headers, (ORIGIN, origin(record)), routing.header]
            self._send(record, made, headers, unit)
        unit.reports += [f"{n} trails are not written: {why}" for why, n in lost.items()]
        self.intake.read += len(records)
        return self._counted(unit)

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
        for number, record in enumerate(parked.first(stream)):
            if record.offset == without and number == 0:
                reason = Malformed("its stream goes on without it, as somebody said")
                self._park(record, None, unit, reason)
            else:
                try:
                    routing, made = self._routed(record)
                except Malformed as error:
                    parked.releasing.pop(stream)
                    self._park(record, parked, unit, error, again=True)
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
            unit.keyed[topic].append((record.key, each.content, unit.now, headers))

    def _park(
        self,
        record: Message,
        parked: ParkedMessages | None,
        unit: CommitUnit,
        reason: Malformed,
        *,
        again: bool = False,
    ) -> None:
        """Park a message that failed, or is behind one; else it goes to the malformed topic."""
        if parked is None or isinstance(record, Damaged) or too_large(record):
            malformed(self._topology, record, unit, reason, unit.now)
            self._add_trail(unit, record)
            return
        parked.add(record, str(reason), unit, again=again)
        if str(reason):
            place = f"{record.topic}/{record.partition}/{record.offset}"
            stream = stream_of(record)
            unit.reports.append(
                f"route {self._route.name}: stream {stream} is parked at {place}: {reason}"
            )

    def _counted(self, unit: CommitUnit) -> CommitUnit:
        self.intake.malformed += unit.malformed
        self.intake.unknown += unit.unknown
        self.intake.parked = 0 if self.parked is None else self.parked.total
        unit.intake = encode_intake(self.intake)
        return unit

    def _routed(self, record: Message) -> tuple[Routing, list[Made]]:
        """Where a message goes, and as what, after as many attempts as it has. Raises Malformed."""
        if isinstance(record, Damaged):
            raise Malformed(record.reason)
        if self.refused and (why := self.refused.get(record.offset)) is not None:
            raise Malformed(why)
        rules, attempts = self.rules, self._route.attempts
        while True:
            attempts -= 1
            try:
                routing = rules.route(record)
                if routing.reason is not None:
                    raise Malformed(routing.reason)
                return routing, rules.make(routing)
            except Malformed:
                if attempts <= 0:
                    raise

    def _add_trail(self, unit: CommitUnit, record: Message) -> None:
        """Note at the message that failed how the rules looked at it."""
        if not isinstance(record, Damaged):
            trail = str(self.rules.route(record, "all")).encode("utf-8", "backslashreplace")
            headers = unit.keyed[self._topology.malformed_topic][-1][3]
            headers.insert(-2, (TRAIL, trail[:TRAIL_BYTES]))

    def _trail(self, record: Message, unit: CommitUnit, now: int, lost: dict[str, int]) -> None:
        """Write a message's trail: with the unit, or by the log."""
        if isinstance(record, Damaged):
            return
        routing = self.rules.route(record, self.trace.detail)
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
