"""A stream's cells as a handler has them whose view has cells of verbs, too."""

from collections.abc import Iterator, MutableMapping
from typing import Any

from topology.model.errors import HandlerError
from topology.verbs.revisions import Cells


class OwnCells(MutableMapping[str, Any]):
    """The cells but for those of verbs, which the handler neither sees nor changes.

    Args:
        cells: all of the stream.
        hidden: what the names of the verbs' cells begin with.
    """

    def __init__(self, cells: Cells, hidden: str) -> None:
        self._cells, self._hidden = cells, hidden

    def __getitem__(self, key: str) -> Any:
        if self._hides(key):
            raise KeyError(key)
        return self._cells[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if self._hides(key):
            raise HandlerError(
                f"the key of a cell, {key!r:.100}: those that begin with {self._hidden!r} are of "
                "the view's verbs"
            )
        self._cells[key] = value

    def __delitem__(self, key: str) -> None:
        if self._hides(key):
            raise KeyError(key)
        del self._cells[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._cells if not self._hides(key))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        """Leave nothing; the general one would sort all keys for each of them."""
        for key in list(self):
            del self[key]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cells, name)

    def _hides(self, key: object) -> bool:
        return isinstance(key, str) and key.startswith(self._hidden)
