"""Dead events that were put back into a view: each once, counted, and told of."""

from collections import defaultdict

import orjson

from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit
from topology.engine.redelivery.records import Redelivered
from topology.engine.state.rows import redriven_key
from topology.model.counts import Counts
from topology.model.event import Event
from topology.model.partition_table import PartitionTable, Row
from topology.model.printable import printable

TOLD = 20
"""Sequences of a stream that its record in the audit topic names, the lowest."""


class RedrivenEvents:
    """Those of the step in hand; rows remember those of the steps before."""

    def __init__(self, view: str, table: PartitionTable) -> None:
        self._view = view
        self._table = table
        self._taken: dict[int, Redelivered] = {}

    def __bool__(self) -> bool:
        return bool(self._taken)

    def take(self, event: Event) -> bool:
        """Whether an event is put back for the first time."""
        assert isinstance(event, Redelivered)
        assert event.dead is not None
        if event.dead in self._taken or self._table.get(redriven_key(event.dead)) is not None:
            return False
        self._taken[event.dead] = event
        return True

    def count(self, counts: Counts) -> int:
        """They were received before, and are again; they are dead no more. Returns how many."""
        number = len(self._taken)
        # At least once, a crash may have left a record of an event that is not counted as dead.
        moved = min(number, counts.dead)
        counts.dead -= moved
        counts.redriven += number
        counts.received += 2 * number - moved
        return number

    def rows(self) -> list[Row]:
        """The rows that remember them."""
        return [(redriven_key(at), b"") for at in self._taken]

    def tell(self, view: View, unit: CommitUnit) -> None:
        """Say so in the audit topic and the log, stream by stream; and begin the next step."""
        streams: dict[str, list[int]] = defaultdict(list)
        for event in self._taken.values():
            streams[event.stream].append(event.sequence)
        self._taken = {}
        for stream, sequences in streams.items():
            sequences.sort()
            message = (
                f"view {view.name}: stream {printable(stream)} takes {len(sequences)} dead "
                f"{'event' if len(sequences) == 1 else 'events'} back, {sequences[0]} to "
                f"{sequences[-1]}"
            )
            report = {
                "when": unit.now,
                "name": "redrive-dead",
                "view": view.name,
                "stream": stream,
                "done": True,
                "message": message,
                "facts": {"redriven": len(sequences), "sequences": sequences[:TOLD]},
            }
            headers = [("view", view.name.encode())]
            out = (stream.encode(), orjson.dumps(report), unit.now, headers)
            unit.keyed[view.audit_topic].append(out)
            unit.reports.append(printable(message, 1000))
