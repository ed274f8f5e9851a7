"""Entries in order, kept in cells as a tree, of which a change writes few nodes.

An entry is a list that begins with two values that tell it from others, and by which all are
sorted; what follows is its own. A leaf is a list of entries, an inner node one of [what all below
it is at or above, the child's number]. The cell of the tree itself is [its height, the next node's
number, the root's].
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, MutableMapping
from typing import Any

Cells = MutableMapping[str, Any]
Entry = list[Any]
MOST = 32
"""Entries of a node.

They are found by lists of their first two values: a list sorts right before those that begin so.
"""


class SortedCells:
    """Entries of a stream by what they are sorted by.

    cells: the stream's. name: of the tree's cell, and the beginning of its nodes' names.
    """

    __slots__ = ("_cells", "_name")

    def __init__(self, cells: Cells, name: str) -> None:
        self._cells, self._name = cells, name

    def put(self, entry: Entry) -> None:
        """Add an entry, or put it in the place of the one with the same first two values."""
        if self._name not in self._cells:
            self._cells[self._name] = [0, 1, 0]
            self._cells[f"{self._name} 0"] = []
        path, leaf = self._path(entry)
        at = bisect_left(leaf, entry[:2])
        if at < len(leaf) and leaf[at][:2] == entry[:2]:
            leaf[at] = entry
            return
        leaf.insert(at, entry)
        for node, child in path:
            node[child][0] = min(node[child][0], entry[:2])
        self._split(path, leaf, at)

    def remove(self, entry: Entry) -> None:
        """Take out an entry that is there."""
        path, leaf = self._path(entry)
        del leaf[bisect_left(leaf, entry[:2])]
        below = leaf
        while path and not below:
            below, child = path.pop()
            del self._cells[f"{self._name} {below.pop(child)[1]}"]
        if not below and not path:
            del self._cells[f"{self._name} {self._cells[self._name][2]}"]
            del self._cells[self._name]

    def find(self, entry: Entry) -> Entry | None:
        """The entry with the same first two values, None if there is none."""
        found = next(self.since(entry[:2]), None)
        return found if found is not None and found[:2] == entry[:2] else None

    @property
    def first(self) -> Any:
        """The lowest first value of all entries, None where there are none."""
        tree = self._cells.get(self._name)
        return None if tree is None else _least(self._cells[f"{self._name} {tree[2]}"])[0]

    def since(self, start: Entry) -> Iterator[Entry]:
        """The entries at or above `start`, in order; none is changed meanwhile."""
        height, _, root = self._cells.get(self._name, _EMPTY)
        return self._since(root, height, start)

    def below(self, end: Entry) -> Iterator[Entry]:
        """The entries below `end`, the highest first; none is changed meanwhile."""
        height, _, root = self._cells.get(self._name, _EMPTY)
        return self._below(root, height, end)

    def _since(self, number: int, height: int, start: Entry) -> Iterator[Entry]:
        node = self._cells.get(f"{self._name} {number}", ())
        if not height:
            yield from node[bisect_left(node, start) :]
            return
        for _, child in node[max(0, bisect_right(node, [start, _HIGH]) - 1) :]:
            yield from self._since(child, height - 1, start)

    def _below(self, number: int, height: int, end: Entry) -> Iterator[Entry]:
        node = self._cells.get(f"{self._name} {number}", ())
        if not height:
            yield from reversed(node[: bisect_left(node, end)])
            return
        for _, child in reversed(node[: bisect_left(node, [end])]):
            yield from self._below(child, height - 1, end)

    def _path(self, entry: Entry) -> tuple[list[tuple[list[Entry], int]], list[Entry]]:
        """The inner nodes above an entry's leaf, each with the place of the next; and the leaf."""
        height, _, number = self._cells[self._name]
        path: list[tuple[list[Entry], int]] = []
        for _ in range(height):
            node = self._cells[f"{self._name} {number}"]
            child = max(0, bisect_right(node, [entry[:2], _HIGH]) - 1)
            path.append((node, child))
            number = node[child][1]
        return path, self._cells[f"{self._name} {number}"]

    def _split(self, path: list[tuple[list[Entry], int]], node: list[Entry], at: int) -> None:
        """Split a node that has too many entries, and those above it. at: the new entry's place."""
        tree = self._cells[self._name]
        while len(node) > MOST:
            # What grows at its end leaves full nodes behind.
            half = MOST if at == MOST else MOST // 2
            rest, number = node[half:], tree[1]
            del node[half:]
            tree[1] += 1
            self._cells[f"{self._name} {number}"] = rest
            if not path:
                # It was the root; now there is one above it.
                root = [[_least(node), tree[2]], [_least(rest), number]]
                tree[:] = [tree[0] + 1, number + 2, number + 1]
                self._cells[f"{self._name} {number + 1}"] = root
                return
            node, child = path.pop()
            at = child + 1
            node.insert(at, [_least(rest), number])


_EMPTY = (0, 0, -1)
_HIGH = 2**63
"""Above all numbers of nodes."""


def _least(node: list[Entry]) -> Entry:
    """What all of a node is at or above."""
    first = node[0]
    return first[0] if isinstance(first[0], list) else first[:2]
