"""How the second stage stands in a partition: told in a row, halted and resumed by orders."""

import time
from collections.abc import Callable
from dataclasses import astuple, fields

from mode import get_logger

from topology.declaration.ordered_stage import OrderedStage
from topology.engine.state.rows import WORK
from topology.engine.state.work_status import decode_work_status
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.operator_orders import OperatorOrders
from topology.model.partition_table import PartitionTable, Row
from topology.model.printable import printable
from topology.ordered_commit import CommitCounts, Grant, OrderedCommit

logger = get_logger(__name__)

EVERY = 1.0
"""Seconds between two reports, unless something has to be made durable with a unit."""
_COUNTS = [each.name for each in fields(CommitCounts)]


class StageStatus:
    """Halts and resumes the core of a partition, and writes down how it stands.

    due: whether the next unit has to have its row, though it may commit nothing else. away: says
    what the view's database said, while it is away.
    """

    def __init__(
        self,
        stage: OrderedStage,
        table: PartitionTable,
        core: OrderedCommit,
        orders: OperatorOrders | None,
        away: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.status = decode_work_status(table.get(WORK))
        self.due = False
        self._stage = stage
        self._core = core
        self._orders = orders
        self._away = away
        self._before = self.status.counts
        self._counted = False
        self._halted: list[Grant] = []
        self._looked = self._told = time.monotonic()
        self._last: tuple[object, ...] = ()
        if orders is not None and self.status.orders > orders.end:
            # The audit topic was made anew.
            self.status.orders = 0
        if not stage.arrivals and self.status.halted is not None:
            # A start tries again what has failed.
            self.status.halted, self.due = None, True
        self.heed()
        core.halted = self.status.halted is not None
        if core.halted:
            self._say()

    def halt(self, reason: str, grant: Grant) -> None:
        """The error policy halts the view: nothing more is begun until an operator resumes it."""
        self.status.halted, self.due = reason, True
        if not self._stage.arrivals:
            # Nobody can resume it: what the failed event holds up waits until the next start.
            return
        self._halted.append(grant)
        self._core.halted = True
        self._say()

    def heed(self) -> bool:
        """Do what operators have told the view since; whether there was something."""
        found = None if self._orders is None else self._orders.latest.get(self._stage.view.name)
        if found is None or found.offset < self.status.orders or not self._stage.arrivals:
            return False
        self.status.orders, self.due = found.offset + 1, True
        if found.halts and self.status.halted is None:
            self.status.halted = f"by {found.who}"
            self._say()
        elif not found.halts and self.status.halted is not None:
            self.status.halted = None
            logger.warning("view %s goes on", self._stage.view.name)
        self._core.halted = self.status.halted is not None
        halted, self._halted = self._halted, []
        for grant in halted if not self._core.halted else ():
            self._core.retry(grant, 0, time.monotonic())
        if self._core.halted:
            self._halted = halted
        return True

    def look(self, now: float) -> bool:
        """Whether there is something to write down. now: the time (s)."""
        if self.heed():
            return True
        if now < self._looked + EVERY:
            return False
        self._looked = now
        self.due = self.due or self._standing() != self._last
        return self.due

    def count(self, failed: int, dead: int, unrouted: int, malformed: int, written: int) -> None:
        """So many events of the unit in hand were passed over, or went to the dead topic.

        unrouted: its messages without a destination. malformed: those that are no events. written:
        its outputs.
        """
        status = self.status
        if failed or dead or unrouted or malformed or written:
            status.failed += failed
            status.dead += dead
            status.unrouted += unrouted
            status.malformed += malformed
            status.written = None if status.written is None else status.written + written
            self._counted = True

    def rows(self, now: float) -> list[Row]:
        """The row for a unit, where it is time for it."""
        counted, self._counted = self._counted, False
        if not self.due and now < self._told + EVERY:
            # What is counted has to be durable with the unit; the rest is as it was a moment ago.
            return [(WORK, self.status.encode())] if counted else []
        self.due, self._told, self._last = False, now, self._standing()
        status, core = self.status, self._core
        status.when = wall()
        status.waiting, status.running, status.staged = core.standing
        status.paused, status.away = not core.room, self._away()
        counts = zip(_COUNTS, astuple(core.counts), strict=True)
        status.counts = {name: n + self._before.get(name, 0) for name, n in counts}
        return [(WORK, status.encode())]

    def _standing(self) -> tuple[object, ...]:
        return (*astuple(self._core.counts), *self._core.standing, self._core.room, self._away())

    def _say(self) -> None:
        logger.error(
            "view %s is halted, and begins nothing more, until it is resumed: %s",
            self._stage.view.name, printable(self.status.halted, 1000),
        )  # fmt: skip
