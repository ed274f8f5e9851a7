"""What a Delta Lake read store notes of its batches, since no transaction covers several tables.

Before a batch writes anything, an entry says which tables it will write, in order, and how far the
store is before and after it. Each table is written in one commit that carries the entry's version,
so that it can be seen which of them a batch that was cut off has written. The last table's commit
is what makes the batch count.

Whoever finds a batch without that commit takes it for cut off, and notes the next entry. Its writer
may be at work nonetheless: the commits it still makes are skipped in tables that have a later
version, and only in those. So it looks, behind the rows, whether its entry is the last one yet: if
not, it neither writes `_progress` nor reports the batch, but applies it to what is there by then.

How far streams are is in the table `_progress`, and of small batches only in the entries until
there is enough to write: a commit takes longer than such a batch's rows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

from stores.sinks.decoding import Mark, Stream
from stores.sinks.records import OutputRecord, Position

Partition = tuple[str, int]
"""(topic, partition)."""
Ends = dict[Partition, int]
"""Partition → the next offset."""


@dataclass(frozen=True, slots=True)
class StoreState:
    """How far a store is.

    positions: of the partitions. batches: query → (number, time, records) of its last batch.
    ahead: table → how far the table is, where that is further than the positions, because of a
    batch that was cut off. marks: of streams that are further than the table `_progress`.
    """

    positions: Mapping[Partition, Position] = field(default_factory=dict)
    batches: Mapping[str, tuple[int, str, int]] = field(default_factory=dict)
    ahead: Mapping[str, Ends] = field(default_factory=dict)
    marks: Mapping[Stream, Mark] = field(default_factory=dict)

    def moved(
        self, positions: Mapping[Partition, Position], batch: Mapping[str, tuple[int, str, int]]
    ) -> "StoreState":
        """The state after a batch that left some partitions at these positions."""
        merged = {**self.positions, **positions}
        state = replace(self, positions=merged, batches={**self.batches, **batch})
        return replace(state, ahead=state._still_ahead(self.ahead))

    def cut_off(self, written: Sequence[str], after: "StoreState") -> "StoreState":
        """The state where of a batch that would have ended in `after` some tables are written."""
        ahead = {table: dict(ends) for table, ends in self.ahead.items()}
        for table in written:
            ends = ahead.setdefault(table, {})
            for at, position in after.positions.items():
                ends[at] = max(ends.get(at, 0), position.next_offset)
        return replace(self, ahead=self._still_ahead(ahead))

    def at(self, positions: Sequence[Position]) -> "StoreState":
        """The state of a store that goes on at these positions in their topics."""
        topics = {position.topic for position in positions}
        kept = {at: p for at, p in self.positions.items() if at[0] not in topics}
        new = {(p.topic, p.partition): p for p in positions}
        ahead = {
            table: {at: end for at, end in ends.items() if at[0] not in topics}
            for table, ends in self.ahead.items()
        }
        return replace(self, positions={**kept, **new}, ahead=ahead)

    def _still_ahead(self, ahead: Mapping[str, Ends]) -> dict[str, Ends]:
        found: dict[str, Ends] = {}
        for table, ends in ahead.items():
            for at, end in ends.items():
                position = self.positions.get(at)
                if position is None or end > position.next_offset:
                    found.setdefault(table, {})[at] = end
        return found


@dataclass(frozen=True, slots=True)
class Switch:
    """Shadow tables take the place of the live ones. tables: theirs, by the names of the views."""

    shadow: str
    topics: Sequence[str]
    tables: Sequence[str]


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A batch, a switch, or a replacement of streams.

    steps: the tables that it writes, in order. replacing: the records of a replacement; whoever
    finds it cut off completes it, or notes that it is given up where a table refuses it.
    """

    version: int = 0
    steps: Sequence[str] = ()
    before: StoreState = StoreState()
    after: StoreState = StoreState()
    switch: Switch | None = None
    replacing: Sequence[OutputRecord] = ()

    def state(self, written: Callable[[str], bool]) -> StoreState:
        """How far the store is, given which tables have this entry's commit."""
        if not self.steps or written(self.steps[-1]):
            return self.after
        done: list[str] = []
        for step in self.steps:
            if not written(step):
                break
            done.append(step)
        return self.before.cut_off(done, self.after)

    def encoded(self) -> bytes:
        """As it is kept."""
        return orjson.dumps(
            {
                "version": self.version,
                "steps": self.steps,
                "before": _encoded(self.before),
                "after": _encoded(self.after),
                "switch": None if self.switch is None else _encoded_switch(self.switch),
                "replacing": [
                    (*at, None if value is None else value.decode("latin-1"))
                    for *at, value in self.replacing
                ],
            }
        )


def decoded(kept: bytes) -> JournalEntry:
    """An entry as it was kept, with `amended` and `side` as keys, too, as before the first release.

    Raises:
        ValueError, KeyError, TypeError: it is anything else.
    """
    entry = orjson.loads(kept)
    return JournalEntry(
        entry["version"],
        entry["steps"],
        _decoded(entry["before"]),
        _decoded(entry["after"]),
        None if entry["switch"] is None else _decoded_switch(entry["switch"]),
        tuple(
            (topic, partition, offset, None if value is None else value.encode("latin-1"))
            for topic, partition, offset, value in entry.get("replacing", entry.get("amended", ()))
        ),
    )


def _encoded_switch(switch: Switch) -> dict[str, Any]:
    return {"shadow": switch.shadow, "topics": switch.topics, "tables": switch.tables}


def _decoded_switch(kept: Mapping[str, Any]) -> Switch:
    return Switch(kept.get("shadow") or kept["side"], kept["topics"], kept["tables"])


def _encoded(state: StoreState) -> dict[str, Any]:
    return {
        "positions": [asdict(position) for position in state.positions.values()],
        "batches": state.batches,
        "ahead": {
            table: [(*at, end) for at, end in ends.items()] for table, ends in state.ahead.items()
        },
        "marks": [(*stream, *mark) for stream, mark in state.marks.items()],
    }


def _decoded(kept: Mapping[str, Any]) -> StoreState:
    positions = [Position(**position) for position in kept["positions"]]
    return StoreState(
        {(p.topic, p.partition): p for p in positions},
        {query: (number, at, records) for query, (number, at, records) in kept["batches"].items()},
        {
            table: {(topic, partition): end for topic, partition, end in ends}
            for table, ends in kept["ahead"].items()
        },
        {(*stream,): (epoch, sequence) for *stream, epoch, sequence in kept.get("marks", ())},
    )
