"""What a partition that is routed asks of its process: the rules, and what is let go."""

from collections.abc import Callable, Sequence

from topology.engine.route_task import RouteTask
from topology.faust.worker.routing.process import RouterProcess
from topology.faust.worker.routing.refusals import RouteRefusals
from topology.model.event import Message


class RulesInTurn:
    """Gives a partition's task the rules for each batch; the batch waits where there are none.

    place: the topic and the partition. refuse: what Kafka refuses is tried again when a stream is
    let go.
    """

    def __init__(
        self, process: RouterProcess, place: tuple[str, int], task: RouteTask, refuse: RouteRefusals
    ) -> None:
        self._process, self._place, self._task, self._refusals = process, place, task, refuse
        self._read = 0
        task.log_trail = process.trails.add
        process.counted[place] = task.intake

    async def admit(self, records: Sequence[Message], caught_up: Callable[[], bool]) -> None:
        """Wait until there are rules for these records, and for what is let go."""
        task = self._task
        if task.parked is not None:
            self._let_go()
        if records or (task.parked is not None and task.parked.releasing):
            task.rules = await self._process.rules_for(self._place[0], task.intake.rules)
            task.intake.rules = task.rules.number
            task.trace = self._process.member.agreement.trace

    def _let_go(self) -> None:
        """Take the orders since the last time. A process that starts takes all that there were:
        a stream that fails still is parked as before."""
        orders, parked, refusals = self._process.releases, self._task.parked, self._refusals
        assert parked is not None
        for number in range(self._read, len(orders)):
            order = orders[number]
            if (order.topic, order.partition) == self._place:
                without = order.offset if order.without else None
                if parked.release(order.stream, without) and number >= refusals.forgiven:
                    refusals.found.clear()
        self._read = len(orders)
        refusals.forgiven = max(refusals.forgiven, self._read)
