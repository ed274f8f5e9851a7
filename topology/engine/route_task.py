"""Routes one partition of a topic: each message to the topics of its destinations."""

from collections.abc import Sequence

from topology.declaration.route import Route
from topology.declaration.side_topics import SideTopics
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import IntakeCounts, encode_intake
from topology.engine.stream_task import malformed
from topology.model.errors import Malformed
from topology.model.event import Damaged, Message
from topology.model.origin_headers import ORIGIN, origin


class RouteTask:
    """Routes messages. intake: what became of them; those without a destination are unknown."""

    def __init__(
        self, topology: SideTopics, route: Route, intake: IntakeCounts | None = None
    ) -> None:
        self._topology, self._route = topology, route
        self.intake = IntakeCounts() if intake is None else intake

    def process(self, records: Sequence[Message], now: int) -> CommitUnit:
        """One step: each message once to each of its destinations, or to the malformed topic."""
        last = records[-1]
        unit = CommitUnit(last.topic, last.partition, last.offset + 1, now=now)
        rules, to = self._route.rules, self._route.to
        for record in records:
            try:
                if isinstance(record, Damaged):
                    raise Malformed(record.reason)
                routing = rules.route(record)
                if routing.reason is not None:
                    raise Malformed(routing.reason)
                made = rules.make(routing)
            except Malformed as reason:
                malformed(self._topology, record, unit, reason, now)
                continue
            if not routing.destinations:
                unit.unknown += 1
                continue
            headers = [*record.headers, (ORIGIN, origin(record)), routing.header]
            # Without a key, the partition that it comes from decides, so that the order stays.
            sent = unit.colocated if record.key is None else unit.keyed
            for each in made:
                sent[to[each.destination]].append((record.key, each.content, now, headers))
        self.intake.read += len(records)
        self.intake.malformed += unit.malformed
        self.intake.unknown += unit.unknown
        unit.intake = encode_intake(self.intake)
        return unit
