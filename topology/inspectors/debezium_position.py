"""Where in a database's log a change stands, as one number of 64 bits.

The numbers are those of one database server. They order the changes of a row; they have holes,
since the log holds much else: their order is monotonic, never contiguous.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from topology.inspectors.normalise import sequence_number
from topology.model.errors import Malformed
from topology.model.printable import printable

_FILE = re.compile(r".*\.([0-9]{1,10})", re.DOTALL)
_ROW_BITS, _POSITION_BITS, _FILE_BITS = 12, 32, 19


def position(source: Mapping[str, Any]) -> int:
    """The position that a change event's `source` names. Raises Malformed."""
    connector = source.get("connector")
    read = _POSITIONS.get(connector) if isinstance(connector, str) else None
    if read is None:
        raise Malformed(
            f"the connector {printable(connector, 80)!r} names no position that fits into 64 bits; "
            "order by Debezium(version=…) or Debezium(sequence=…)"
        )
    return read(source)


def _lsn(source: Mapping[str, Any]) -> int:
    """PostgreSQL: the byte in the write-ahead log."""
    return sequence_number(_field(source, "lsn"), "number")


def _binlog(source: Mapping[str, Any]) -> int:
    """MySQL and MariaDB: file, byte in the file, row within the log's event there.

    Bits from the top: 19 for the file's number, 32 for the byte, 12 for the row.
    """
    file = _field(source, "file")
    if not isinstance(file, str) or (found := _FILE.fullmatch(file)) is None:
        raise Malformed(f"the binlog file {printable(file, 80)!r} has no number at its end")
    row = source.get("row")
    parts = (
        ("file", int(found[1]), _FILE_BITS),
        ("pos", sequence_number(_field(source, "pos"), "number"), _POSITION_BITS),
        ("row", 0 if row is None else sequence_number(row, "number"), _ROW_BITS),
    )
    packed = 0
    for name, value, bits in parts:
        if not 0 <= value < 1 << bits:
            raise Malformed(f"the binlog {name} {value} does not fit into {bits} bits")
        packed = packed << bits | value
    return packed


def _field(source: Mapping[str, Any], name: str) -> Any:
    value = source.get(name)
    if value is None:
        raise Malformed(f"the sequence is missing: no 'source.{name}'")
    return value


_POSITIONS: dict[str, Callable[[Mapping[str, Any]], int]] = {
    "postgresql": _lsn,
    "mysql": _binlog,
    "mariadb": _binlog,
}
