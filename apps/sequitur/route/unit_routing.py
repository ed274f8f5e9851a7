"""What a message of units of work becomes: by the rules, for the destinations' transports."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stores.segments import InboundMessage, OutboundMessage
from stores.segments.identity import identify
from stores.segments.message import Headers
from topology.engine.route_task import endpoint_topic
from topology.model.errors import Malformed
from topology.model.event import Record
from topology.routing import RuleSet, Trace
from topology.routing.broadcasts import RULES_HEADER, broadcast_headers

if TYPE_CHECKING:
    from sequitur.route.agreed_rules import AgreedRules

STAGE = "router"
"""The name of the stage that routes."""
_ORIGIN = "sequitur-origin"


def control_topic(router: str) -> str:
    """The topic by which a router's processes agree.

    Args:
        router: its name.
    """
    return f"{router}.{STAGE}.control"


class UnitRouting:
    """Routes messages of units of work.

    Args:
        site: where this is.
        rules: that it begins with.
        destinations: name → its transport, and its address there.
        window: seconds for which producers' ids are believed.
        agreeing: makes what this process agrees on with others; None: `rules` stay.
    """

    def __init__(
        self,
        site: str,
        rules: RuleSet,
        destinations: Mapping[str, tuple[str, str]],
        window: float | None,
        agreeing: "Callable[[], AgreedRules] | None" = None,
    ) -> None:
        self._site, self._rules, self._destinations = site, rules, destinations
        self._window, self._agreeing = window, agreeing
        self._agreed: AgreedRules | None = None
        self._by_topic: dict[str, RuleSet] = {}

    async def prepare(self, topic: str, new: bool) -> None:
        """See `UnitIntake`: have the rules for the next batch of a source."""
        if self._agreeing is not None:
            if self._agreed is None:
                self._agreed = self._agreeing()
            self._by_topic[topic] = await self._agreed.rules(topic, new)

    async def stop(self) -> None:
        """Take no part any more in what processes agree on."""
        if self._agreed is not None:
            await self._agreed.stop()

    def route(self, message: InboundMessage) -> list[OutboundMessage]:
        """What comes of a message.

        Args:
            message: as it was delivered.

        Raises:
            Malformed: it cannot be routed.
        """
        where = (message.topic, message.partition, message.offset)
        rules, agreed = self._by_topic.get(message.topic, self._rules), self._agreed
        trace = Trace() if agreed is None else agreed.trace
        traced = trace.detail != "none" and message.offset % trace.every == 0
        record = Record(*where, message.key, message.value, message.headers, message.time)
        routing = rules.route(record, trace.detail if traced else "none")
        if traced and agreed is not None:
            agreed.trail(routing)
        if routing.reason is not None:
            raise Malformed(routing.reason)
        own = {RULES_HEADER: b"%d" % routing.version}
        if message.replayable:
            own[_ORIGIN] = "/".join(map(str, where)).encode()
        headers = (*(each for each in message.headers if each[0] not in own), *own.items())
        return [
            OutboundMessage(
                self._destinations[each.destination][0],
                endpoint_topic(self._destinations[each.destination][1], each),
                each.content,
                message.key,
                (*headers, *self._broadcast(message, rules, each.broadcast)),
                message.stream,
                message.sequence,
            )
            for each in rules.make(routing)
        ]

    def _broadcast(
        self, message: InboundMessage, rules: RuleSet, actions: tuple[str, ...] | None
    ) -> Headers:
        if actions is None:
            return ()
        # A queue's positions begin anew with each connection: there its id says which it is.
        place: tuple[object, ...] = (message.topic, message.partition, message.offset)
        if not message.replayable:
            place = (identify(message, self._site, self._window).id,)
        return tuple(broadcast_headers(rules.site, rules.unit, place, actions))
