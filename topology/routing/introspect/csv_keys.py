"""Routing keys out of CSV, by the columns' names or numbers."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from topology.model.closest import closest
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Message
from topology.model.printable import printable
from topology.routing.introspect.key_module import (
    Introspect,
    KeyModule,
    Memo,
    checked_every,
    checked_keys,
)
from topology.routing.introspect.key_values import MOST_VALUES, Keys, checked_content, collected

_BOM = "\ufeff"
"""What spreadsheets write in front, which would be a part of the first column's name."""
MOST_COLUMNS = 10_000
"""The highest number of a column."""


class CsvKeys(KeyModule):
    """Extracts routing keys from CSV of one or several rows. An empty cell is no key.

    Args:
        keys: name of the key → the column's name, or its number, which counts from 1.
        columns: the columns' names, where the message has no header line; None if its first line
            has them, which is so only if a key names its column.
        delimiter: what separates columns.
        every: keys that take the values of all rows; others take that of the first.
        encoding: of the text.
        reads: the format's name.

    Raises:
        DeclarationError: a name, number or option is wrong.
    """

    def __init__(
        self,
        keys: Mapping[str, str | int],
        *,
        columns: Sequence[str] | None = None,
        delimiter: str = ",",
        every: Iterable[str] = (),
        encoding: str = "utf-8",
        reads: str = "csv",
    ) -> None:
        self.keys = checked_keys("CsvKeys", keys)
        self.columns = None if columns is None else tuple(columns)
        for name, column in self.keys.items():
            if isinstance(column, bool) or not isinstance(column, int | str):
                raise DeclarationError(f"CsvKeys: key {name!r}: {column!r} is no column")
            if isinstance(column, int) and not 1 <= column <= MOST_COLUMNS:
                raise DeclarationError(
                    f"CsvKeys: key {name!r}: columns count from 1 to {MOST_COLUMNS}, not {column}"
                )
            if isinstance(column, str) and columns is not None and column not in columns:
                raise DeclarationError(
                    f"CsvKeys: key {name!r}: no column {column!r}{closest(column, columns)}"
                )
        if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n"':
            raise DeclarationError(f"CsvKeys(delimiter={delimiter!r}): give one character")
        try:
            "".encode(encoding)
        except (LookupError, TypeError):
            raise DeclarationError(f"CsvKeys(encoding={encoding!r}): no such encoding") from None
        self.every = checked_every("CsvKeys", every, keys)
        self.delimiter, self.encoding = delimiter, encoding
        self.names, self.reads = tuple(self.keys), reads

    def compile(self) -> Introspect:
        """Return the module as one function of a message."""
        named = any(isinstance(column, str) for column in self.keys.values())
        has_header = named and self.columns is None
        every, fixed = self.every, None if has_header else self._places(self.columns or ())

        def introspect(message: Message, memo: Memo) -> Keys:
            rows = self._rows(checked_content(message.value))
            places = self._places(next(rows, ())) if fixed is None else fixed
            found: dict[str, list[Any]] = {}
            for number, row in enumerate(rows):
                for name, place in places:
                    if place < len(row) and row[place]:
                        values = found.setdefault(name, [])
                        if len(values) <= MOST_VALUES:  # one more shows that there are too many
                            values.append(row[place])
                if number == 0:
                    places = [each for each in places if each[0] in every]
                elif not every and number >= MOST_VALUES:  # up to here, what is no CSV is refused
                    break
            return collected(every, found)

        return introspect

    def _places(self, header: Sequence[str]) -> list[tuple[str, int]]:
        """(key, index in a row) of the columns that are there."""
        found = []
        for name, column in self.keys.items():
            if isinstance(column, int):
                found.append((name, column - 1))
            elif column in header:
                found.append((name, header.index(column)))
        return found

    def _rows(self, value: bytes) -> Iterator[list[str]]:
        try:
            text = io.StringIO(value.decode(self.encoding).removeprefix(_BOM), newline="")
            yield from filter(None, csv.reader(text, delimiter=self.delimiter, strict=True))
        except UnicodeError:
            raise Malformed(f"the value is not {self.encoding}") from None
        except csv.Error as error:
            raise Malformed(f"the value is not CSV: {printable(error)}") from None
