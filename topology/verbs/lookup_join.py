"""One key of a lookup: its right stream's values, and the left rows that look them up. Pure.

Left and right come in any order, so nothing here depends on it. Values and rows are kept as cells,
sorted by what is looked up: a time, or a sequence of the right stream. The state is a dictionary
that JSON can write: `clock`, the highest of the right's, `mark`, its last event, `held`, how many
values there are, `losses`, how often some were given up, `since`, from where on nothing was
dropped, `gone`, the last of the rows that were dropped, and the ranges of rows that may have
changed: `todo` of those that are final, `again` of those that are told of, but not final: [from, to
before, the row to go on with]; `waiting`, the last group of rows that wait: [its number, the slice
of time in which it began to, how many they are]; and `over`, the groups that have waited long
enough: [its number, the cell of it to go on with].

Two rules bound it, and both are of the right's own sequence, so that nothing depends on how far one
side is ahead of the other: a row is kept, and an event of the right is taken, up to `keep` behind
the clock. Values are kept longer, `history` of them, for rows that are yet to come.

What was given up is noted as [the clock in front of it, the sequence behind it, how many]. It may
have been what a row looks up if it is behind what the row finds, and the clock in front of it had
not passed the row. Neither changes once the row is kept no more, so that this does not depend on
how far one side is ahead either. Both grow from one loss to the next.
"""

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from itertools import dropwhile, islice, takewhile
from typing import Any

import orjson

from topology.sequencer.ordering import LAST
from topology.verbs.as_of import AsOf
from topology.verbs.lookup_records import Item, LookupRecord
from topology.verbs.sorted_cells import SortedCells

MOST = 250
"""Rows that one record makes final, or revises; the others follow with a record to go on."""
BYTES = 250_000
"""The same of what they are made of: the row changes of one record have a limit."""
TOGETHER = 16
"""Rows of a group that wait in one cell: each that joins them writes it anew."""
LOSSES = 10_000
"""How often some were given up, as far as that is known."""
DROPPED = 200
"""Rows and values that one record drops, of those that are kept no more."""


@dataclass(slots=True)
class Found:
    """A left value with what it finds.

    id: tells it from the other rows of its key. stream, sequence, number: its event, and which of
    that event's values it is. time: of its event (ms). left, right: contents, the right's in a
    list; None where there is none. final: whether the right has passed it. missing: how many right
    events were given up that may have been meant. settled: whether it is kept no more, so that
    nothing revises it.
    """

    id: str
    stream: str
    sequence: int
    number: int
    time: int
    left: Any
    right: Any
    final: bool
    missing: int
    settled: bool = False


@dataclass(slots=True)
class Taken:
    """What a record comes to: rows to tell of, groups of rows that begin to wait, rows of which
    nothing is told any more, (what it is of, what is kept) if it is late, and whether there are
    rows to go on with."""

    found: list[Found] = field(default_factory=list)
    waits: list[Item] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    late: tuple[int, int] | None = None
    more: bool = False


@dataclass(frozen=True, slots=True)
class LookupJoin:
    """How a key's records change its rows.

    as_of: what is looked up. step: between the right's sequences. first: the one before the first,
    None where its streams may begin anywhere.
    """

    as_of: AsOf[Any]
    step: int = 1
    first: int | None = None

    def take(
        self,
        state: dict[str, Any],
        cells: MutableMapping[str, Any],
        record: LookupRecord,
        now: int = 0,
    ) -> Taken:
        """Take one record over into the state. now: when the record was written (ms)."""
        key = _Key(self, state, cells, now)
        mark = [record.epoch, record.sequence]
        if record.kind == "right":
            before = state.get("mark", [])
            if mark > before:  # else it was sent again after a crash
                state["mark"] = mark
                for item in record.items:
                    key.right(*item, corrects=before != [] and record.epoch > before[0])
        elif record.kind == "left":
            if mark > cells.get(f"left {record.stream}", []):
                cells[f"left {record.stream}"] = mark
                for item in record.items:
                    key.left(record.stream, *item)
        elif record.kind == "over":
            key.are_over([group for (group,) in record.items])
        if "todo" in state or "again" in state or "over" in state:
            key.go_on()
        key.drop()
        return key.taken


class _Key:
    """One record's work on a key."""

    def __init__(
        self, join: LookupJoin, state: dict[str, Any], cells: MutableMapping[str, Any], now: int
    ) -> None:
        self.as_of, self.step, self.now = join.as_of, join.step, now
        self.by_sequence = self.as_of.left is not None
        self.keep = self.as_of.keep * (self.step if self.by_sequence else 1)
        self.state, self.cells = state, cells
        self.values = SortedCells(cells, "values")
        self.rows = SortedCells(cells, "rows")
        self.lost = SortedCells(cells, "lost")
        self.open = SortedCells(cells, "open")
        """The rows that are told of, and not final."""
        self.taken = Taken()
        self.bytes, self.size_of_right = BYTES, dict[int, int]()
        self.found: tuple[int, int, int | None, int] = (0, 0, None, 0)
        self.clock: int = state.get("clock", -LAST)
        if self.by_sequence and join.first is not None:
            self.clock = max(self.clock, join.first)

    @property
    def kept(self) -> int:
        """The first time, or sequence, for which a row is kept, and may be revised."""
        return self.clock - self.keep

    @property
    def since(self) -> int:
        """The first time, or sequence, at which the values are known."""
        found: int = self.state.get("since", -LAST)
        return found

    @property
    def reached(self) -> int:
        """Below which rows are final."""
        return self.as_of.reached(self.clock)

    def left(
        self, stream: str, sequence: int, time: int, looks: list[Item], content: Any,
        known: bool = False,
    ) -> None:  # fmt: skip
        """known: whether it was told of before, and is another now."""
        since = max(self.since, self.kept) if known else self.since
        for number, at in looks:
            if at < since:
                self.taken.late = at, since
                continue
            row = f"{stream} {sequence} {number}"
            if at < self.kept and not known:
                used, missing = self.find(at)
                self.bytes -= self.size(content, used)
                self.say(row, [stream, sequence, number, time, content], used, True, missing, True)
                self.state["gone"] = max(at, self.state.get("gone", at))
                continue
            self.rows.put([at, row])
            self.cells[f"row {row}"] = [stream, sequence, number, time, content, None]
            if at < self.reached or self.as_of.wait == 0:
                self.tell(at, row)
            elif self.as_of.wait is not None:
                self.wait([at, row])

    def wait(self, row: Item) -> None:
        """A row begins to wait, in one group with those that do about now."""
        slice_ = self.now // self.as_of.slice
        group, since, count = self.state.get("waiting", (0, -1, 0))
        if since != slice_ or count >= MOST:
            group, count = group + 1, 0
            self.taken.waits.append([group])
        cell = f"wait {group} {count // TOGETHER}"
        if count % TOGETHER == 0:
            self.cells[cell] = []
        self.cells[cell].append(row)
        self.state["waiting"] = [group, slice_, count + 1]

    def are_over(self, groups: list[int]) -> None:
        """Groups of rows have waited long enough; nothing joins them any more."""
        self.state.setdefault("over", []).extend([group, 0] for group in groups)
        if (waiting := self.state.get("waiting")) is not None and waiting[0] in groups:
            self.state["waiting"] = [waiting[0], -1, 0]

    def right(
        self, sequence: int, time: int, missing: int, content: Any, known: bool = False, *,
        corrects: bool = False,
    ) -> None:  # fmt: skip
        """content: in a list; None of what verbs leave out. known: as of the left.

        corrects: whether a rebuild sends it.
        """
        at = sequence if self.by_sequence else time
        if at < self.kept and not (corrects and self._is_whole_behind(at, sequence)):
            if content is not None or corrects:
                self.taken.late = at, self.kept
            if corrects or self.by_sequence or not missing:
                return
            # What is missing before it may be of any time up to now.
            at, content = self.clock, None
        self.found = (0, 0, None, 0)
        if corrects:
            self._corrected(at, sequence, missing, known)
        elif missing:
            self._lose(self.clock, sequence, missing)
        before, self.clock = self.reached, max(self.clock, at)
        self.state["clock"] = self.clock
        self._may_change("todo", before, self.reached)
        held = self.values.find([at, sequence])
        if content is not None:
            if held is None:
                self.state["held"] = self.state.get("held", 0) + 1
            self.values.put([at, sequence])
            self.cells[f"value {sequence}"] = content[0]
        elif held is not None:
            self.state["held"] -= 1
            self.values.remove(held)
            del self.cells[f"value {sequence}"]
        if content is not None or held is not None:
            later = next(self.values.since([at, sequence + 1]), None)
            self._changed(at, later[0] if later else LAST)

    def _lose(self, clock: int, sequence: int, missing: int) -> None:
        """Some were given up in front of an event of the right."""
        self.lost.put([clock, sequence, missing])
        self.state["losses"] = self.state.get("losses", 0) + 1
        self._changed_from(clock)

    def _corrected(self, at: int, sequence: int, missing: int, known: bool) -> None:
        """A rebuild sends an event that was given up, or one in front of which others are now."""
        behind = list(dropwhile(lambda loss: loss[1] < sequence, self.lost.since([-LAST])))
        loss = behind[0] if behind else None
        if loss is not None and loss[1] == sequence:
            self._found_again(behind.pop(0))
        if missing:
            self._lose(self.clock if loss is None else loss[0], sequence, missing)
        if not known:
            if loss is not None:
                self._changed_from(loss[0])
            # The clock in front of what is missing behind it is that of this one, too.
            for clock, later, count in takewhile(lambda loss: loss[0] < at, behind):
                self._found_again([clock, later, count])
                self._lose(at, later, count)

    def _found_again(self, loss: Item) -> None:
        self.lost.remove(loss)
        self.state["losses"] -= 1
        self._changed_from(loss[0])

    def _changed_from(self, clock: int) -> None:
        """What is missing may be another for rows since a clock, up to the next value: of what is
        later than the clock, all is behind what is missing."""
        later = next(self.values.since([clock + 1]), None)
        self._changed(clock, later[0] if later else LAST)

    def _changed(self, low: int, high: int) -> None:
        """What rows from one time, or sequence, to below another find may be another."""
        self._may_change("todo", low, min(high, self.reached))
        self._may_change("again", max(low, self.reached), high)

    def _is_whole_behind(self, at: int, sequence: int) -> bool:
        """Whether all values and rows are there that an event changes: those behind the value
        before it, and those for which less is missing."""
        low = next(self.values.below([at, -LAST]), [-LAST])[0]
        losses = self.lost.since([-LAST])
        loss = next((each for each in losses if each[1] >= sequence), None)
        low = low if loss is None else min(low, loss[0])
        return at >= self.since and low > self.state.get("gone", -LAST - 1)

    def _may_change(self, which: str, low: int, high: int) -> None:
        """Rows from one time, or sequence, to below another may have changed."""
        if low < high:
            first, end, *row = self.state.get(which, [low, high])
            self.state[which] = [min(low, first), max(high, end), *(row if first < low else ())]

    def go_on(self) -> None:
        """Tell of the rows that may have changed, as many as one record may."""
        room = MOST
        for group, cell in self.state.pop("over", ()):
            while rows := self.cells.pop(f"wait {group} {cell}", None):
                while rows and room:
                    at, row = rows[0]
                    known = self.cells.get(f"row {row}")
                    if known is not None and known[-1] is None:
                        if not self.tell(at, row, fits=True):
                            break
                        room -= 1
                    del rows[0]
                if rows:
                    self.cells[f"wait {group} {cell}"] = rows
                    self.state.setdefault("over", []).append([group, cell])
                    self.taken.more = True
                    break
                cell += 1
        for which, index in (("todo", self.rows), ("again", self.open)):
            low, high, *after = self.state.pop(which, (LAST, LAST))
            entries = index.since([low, *after]) if low < high else iter(())
            for at, row in list(islice(_before(entries, high), room + 1)):
                if not room or not self.tell(at, row, fits=True):
                    self.state[which] = [at, high, row]
                    self.taken.more = True
                    break
                room -= 1

    def tell(self, at: int, row: str, fits: bool = False) -> bool:
        """Tell of a row, unless it was told of just so.

        fits: only if it fits into the record, as the first one always does. Returns whether it did.
        """
        known = self.cells[f"row {row}"]
        used, missing = self.find(at)
        final = at < self.reached
        said = [used, final, missing]
        if known[-1] == said:
            return True
        size = self.size(known[-2], used)
        if fits and self.taken.found and size > self.bytes:
            return False
        self.cells[f"row {row}"] = [*known[:-1], said]
        if not final:
            self.open.put([at, row])
        elif known[-1] is not None and not known[-1][1]:
            self.open.remove([at, row])
        self.bytes -= size
        self.say(row, known[:-1], used, final, missing)
        return True

    def size(self, left: Any, used: int | None) -> int:
        """Bytes of what a row is made of."""
        size = len(orjson.dumps(left))
        if used is None:
            return size
        if used not in self.size_of_right:
            self.size_of_right[used] = len(orjson.dumps(self.cells[f"value {used}"]))
        return size + self.size_of_right[used]

    def say(
        self, row: str, left: list[Any], used: int | None, final: bool, missing: int,
        settled: bool = False,
    ) -> None:  # fmt: skip
        """left: stream, sequence, number, time and content. used: the right's sequence."""
        right = None if used is None else [self.cells[f"value {used}"]]
        stream, sequence, number, time, content = left
        self.taken.found.append(
            Found(row, stream, sequence, number, time, content, right, final, missing, settled)
        )

    def find(self, at: int) -> tuple[int | None, int]:
        """(the sequence of the value at or before, how many were given up behind it that may have
        been meant)."""
        low, high, used, missing = self.found
        if low <= at < high:
            return used, missing
        found = next(self.values.below([at + 1]), None)
        later = next(self.values.since([at + 1]), None)
        low, used = found if found is not None else (-LAST, None)
        high, missing = later[0] if later is not None else LAST, 0
        if not self.state.get("losses"):
            self.found = low, high, used, 0
            return used, 0
        for clock, sequence, count in self.lost.below([at + 1]):
            low = max(low, clock)
            if used is not None and sequence <= used:
                break
            # By sequence, those that are not behind what was seen.
            beyond = max(0, (sequence - at - 1) // self.step) if self.by_sequence else 0
            missing += max(0, count - beyond)
        loss = next(self.lost.since([at + 1]), None)
        if loss is not None:
            high = min(high, loss[0])
        if self.by_sequence:
            low, high = at, at + 1
        # Rows between two values find the same.
        self.found = low, high, used, missing
        return used, missing

    def drop(self) -> None:
        """Drop what is kept no more: rows, and values but for the last one before all rows."""
        todo = self.state.get("todo")
        end = self.kept if todo is None else min(self.kept, todo[0])
        first = self.rows.first
        old = self.rows.since([-LAST]) if first is not None and first < end else iter(())
        for entry in list(islice(_before(old, end), DROPPED)):
            self.rows.remove(entry)
            del self.cells[f"row {entry[1]}"]
            self.taken.dropped.append(entry[1])
            self.state["gone"] = max(entry[0], self.state.get("gone", entry[0]))
        most = min(DROPPED, self.state.get("held", 0) - self.as_of.history)
        last = next(self.values.below([end + 1]), None) if most > 0 else None
        if last is not None:
            since = self.values.since([-LAST])
            dropped = list(takewhile(lambda entry: entry[:2] < last[:2], islice(since, most)))
            for entry in dropped:
                self.values.remove(entry)
                self.cells.pop(f"value {entry[1]}", None)
            if dropped:
                self.state["held"] -= len(dropped)
                # What looks up something earlier may have meant a value that is not there now.
                self.state["since"] = max(self.since, next(self.values.since([-LAST]))[0])
        self._drop_losses()

    def _drop_losses(self) -> None:
        """Forget of what was given up what cannot matter, or is more than is kept of the values."""
        if not self.state.get("losses"):
            return
        since = self.since
        for loss in list(islice(_before(self.lost.since([-LAST]), since), DROPPED)):
            self.lost.remove(loss)
            self.state["losses"] -= 1
        if self.state["losses"] > LOSSES:
            self.lost.remove(next(self.lost.since([-LAST])))
            self.state["losses"] -= 1
            self.state["since"] = max(since, next(self.lost.since([-LAST]))[0])


def _before(entries: Iterator[Item], end: int) -> Iterator[Item]:
    """The first entries, whose time, or sequence, is below `end`."""
    return takewhile(lambda entry: entry[0] < end, entries)
