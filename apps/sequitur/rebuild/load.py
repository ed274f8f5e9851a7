"""Slices into a shadow of the read store, each record once, while others are still being made."""

from collections.abc import Callable, Mapping

from stores.sinks import Applied, OutputRecord, Sink
from topology.spark.slices import Emitted, Slices

BATCH = 20_000
"""The most records of one transaction, of which each may hold many row changes."""
BYTES = 32 << 20
"""Of their values, from which on a transaction is full as well."""
SLICES = 100_000
"""The most slices of one source."""


class Refused(RuntimeError):
    """A record could not be applied; the text says which, and why."""


class Loader:
    """Loads the slices of one source.

    number: of the source in this rebuild. outputs: view → its output topic. send: takes what
    handlers sent, None to leave it. strict: whether every record has to be taken.

    A slice is a partition of the output topic to the shadow, with a number below zero, so that the
    shadow knows what it has of it, however often it is loaded.
    """

    def __init__(
        self,
        shadow: Sink,
        slices: Slices,
        number: int,
        outputs: Mapping[str, str],
        send: Callable[[list[Emitted]], None] | None = None,
        *,
        strict: bool = True,
    ) -> None:
        self.applied = Applied()
        self.loaded: set[int] = set()
        self.chains: dict[tuple[str, str], bytes] = {}
        self._shadow, self._slices, self._outputs, self._send = shadow, slices, outputs, send
        self._strict = strict
        self._first = -1 - number * SLICES

    def load(self, check: Callable[[], None]) -> None:
        """Load what is complete and not loaded yet. Raises Refused.

        check: called before every transaction; what it raises ends the loading.
        """
        for number in self._slices.done():
            if number not in self.loaded:
                self._load(number, check)
                self.loaded.add(number)

    def _load(self, number: int, check: Callable[[], None]) -> None:
        batch: list[OutputRecord] = []
        sent: list[Emitted] = []
        at = size = 0
        for rows in self._slices.read(number):
            for row in rows:
                if isinstance(row, Emitted):
                    sent.append(row)
                    continue
                batch.append((self._outputs[row.view], self._first - number, at, row.value))
                at += 1
                size += len(row.value)
                if row.chain:
                    self.chains[row.view, row.stream] = row.chain
            if len(batch) >= BATCH or size >= BYTES:
                self._apply(batch, check)
                batch, size = [], 0
        self._apply(batch, check)
        if self._send is not None and sent:
            self._send(sent)

    def _apply(self, batch: list[OutputRecord], check: Callable[[], None]) -> None:
        check()
        done = self._shadow.apply(batch)
        if done.dead and self._strict:
            raise Refused(str(done.reason))
        self.applied.add(done)
