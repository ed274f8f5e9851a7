"""What becomes of attempts that fail: they are made again, or the error policy settles them."""

import time
from typing import TYPE_CHECKING

from mode import get_logger

from topology.declaration.ordered_stage import Release
from topology.declaration.policies.error import RETRIES
from topology.declaration.timeouts import TooSlow
from topology.engine.output.failure import WITHOUT_MESSAGES, decided, log_failure
from topology.engine.staged_effects import Staged
from topology.engine.stream_task import malformed
from topology.faust.kafka.worker_clock import wall
from topology.faust.worker.ordered.lease import BehindOlder, DatabaseAway
from topology.model.errors import HandlerError, Malformed, described
from topology.model.event import Event
from topology.model.printable import printable
from topology.ordered_commit import FailureOutcome, Grant

if TYPE_CHECKING:
    from topology.faust.worker.ordered.ordered_runner import OrderedRunner

logger = get_logger(__name__)

BEHIND = 0.1
"""Seconds after which an attempt is made again that waited for an older event's lock."""
AWAY = 1.0
"""Seconds after which an attempt is made again whose database was away."""


class Settling:
    """Decides about failed attempts, and stages what stands in for their effects.

    retried: the offset of an event → how often the error policy had it retried.
    """

    def __init__(self, runner: "OrderedRunner") -> None:
        self._runner = runner
        self._core = runner.core
        self._view = runner.stage.view
        self.retried: dict[int, int] = {}

    def failed(self, grant: Grant, event: Event | Release, error: BaseException) -> None:
        """An attempt has failed: it is made again, or settled, or was rolled back before."""
        sure = isinstance(error, HandlerError) and not isinstance(error, TooSlow)
        if sure and len(grant.events) == 1 and self._core.counts_still(grant):
            # What it yields is wrong, or Kafka refuses it: that would be so again.
            self.settle(grant, event, error, retried=RETRIES)
            return
        if isinstance(error, DatabaseAway) and not self._ends_its_connection(grant, error):
            # No event's doing: it counts for nothing.
            logger.warning("view %s: the database is away: %s", self._view.name, error)
            if not self._core.retry(grant, AWAY, time.monotonic(), anew=False):
                self._runner.ended(grant)
            return
        if isinstance(error, BehindOlder):
            # As with what gives way, it runs again behind the older one, and counts for nothing.
            if not self._core.retry(grant, BEHIND, time.monotonic(), anew=False):
                self._runner.ended(grant)
            return
        outcome = self._core.failed(grant, time.monotonic())
        if outcome is FailureOutcome.UNSETTLED:
            self.settle(grant, event, error)
        elif outcome is FailureOutcome.RETRIED:
            logger.info(
                "view %s: an attempt at %d failed: %s",
                self._view.name, grant.offset, printable(described(error), 1000),
            )  # fmt: skip
        else:
            self._runner.ended(grant)

    def _ends_its_connection(self, grant: Grant, error: DatabaseAway) -> bool:
        """Whether an event's SQL may be what ends the connection: it was there each time."""
        lent = self._runner.lent
        if not error.lost or lent is None or not lent.lost(grant):
            return False
        lent.away = None  # for all that this says
        return True

    def forget(self, offset: int) -> None:
        """An event is done."""
        self.retried.pop(offset, None)
        if self._runner.lent is not None:
            self._runner.lent.forgive(offset)

    def settle(
        self, grant: Grant, event: Event | Release, error: BaseException, retried: int = 0
    ) -> None:
        """Do what the view's error policy says. retried: how often the event was, at least."""
        runner, view = self._runner, self._view
        if isinstance(event, Release):
            told = printable(described(error), 1000)
            logger.error("view %s: a stream is not released: %s", view.name, told)
            nobody = Event(event.stream, 0, None, None, runner.records[grant.offset])
            runner.finished(grant, None, runner.effects.stage(grant, Staged(nobody, runner.unit())))
            return
        retried = max(retried, self.retried.pop(grant.offset, 0))
        what = decided(view.error, event, error, retried)
        if what.halts or what.retry:
            if runner.lent is not None:
                runner.lent.forgive(grant.offset)
            # Kafka deletes what is older than its topic keeps it.
            runner.asides.now = wall()
            log_failure(view, event, error, what.done, runner.asides)
            if what.halts:
                reason = f"stream {event.stream} failed at sequence {event.sequence}: "
                runner.status.halt(printable(reason + described(error), 1000), grant)
            runner.turns_changed()
            if what.retry:
                self.retried[grant.offset] = what.retry
                self._core.retry(grant, what.delay, time.monotonic())
            return
        staged = Staged(event, runner.unit())
        log_failure(view, event, error, what.done, staged.unit)
        staged.failed = 0 if what.held else 1
        if not what.held and view.stateful and view.closed_by(event):
            staged.state = b"{}"
        stage = runner.effects.park if what.held else runner.effects.stage
        runner.finished(grant, None, stage(grant, staged))

    def drop_refused(self, event: Event | Release | Malformed, made: Staged) -> None:
        """Leave out messages that Kafka refuses: their SQL is committed, so they cannot fail."""
        emitting = self._view.emitting
        if not emitting.refused or isinstance(event, Malformed):
            return
        places = {each[3:] for each in made.unit.sent} & emitting.refused.keys()
        found = {place: emitting.refusal(*place) for place in places}
        sent = {id(each[1]) for each in made.unit.sent if each[3:] in found}
        for records in (made.unit.keyed, made.unit.colocated):
            for topic, outs in records.items():
                records[topic] = [out for out in outs if id(out) not in sent]
        made.unit.sent = [each for each in made.unit.sent if each[3:] not in found]
        for (stream, sequence), why in found.items():
            # A stream that is released has several.
            of = Event(stream, sequence, None, None, made.event.message)
            error = HandlerError(f"{why}; its SQL is committed, and its messages are left out")
            log_failure(self._view, of, error, WITHOUT_MESSAGES, made.unit)

    def pass_malformed(self, grant: Grant, reason: Malformed) -> None:
        """What is no event goes to the malformed topic, at its turn."""
        runner = self._runner
        unit = runner.unit()
        record = runner.records[grant.offset]
        malformed(self._view, record, unit, reason, unit.now)
        nobody = Event(f"{record.partition}/{record.offset}", record.offset, None, None, record)
        runner.finished(grant, None, runner.effects.stage(grant, Staged(nobody, unit)))
